package setuptest_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/attach"
	"github.com/ister-mq/ister/setups/process"
)

// owned is a cluster of processes for others to attach to.
func owned(t *testing.T, ctx context.Context, n int) (setups.Options, setups.Cluster, []setups.Broker) {
	t.Helper()
	o := options(t)
	owner, err := process.Setup{}.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { owner.Close(context.Background()) })
	members, err := owner.Form(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return o, owner, members
}

// The part of the suite that needs no right to start and stop, on brokers that
// another setup started.
func TestAttach(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := options(t)
	owner, err := process.Setup{}.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := owner.Close(context.Background()); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	members, err := owner.Form(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	spare, err := owner.Add(ctx)
	if err != nil {
		t.Fatal(err)
	}
	setup := attach.Setup{Admin: []string{"http://" + members[0].Admin, members[1].Admin, spare.Admin, members[2].Admin}, Bootstrap: []string{members[0].Kafka}}
	for _, f := range setup.Check(ctx) {
		if !f.OK {
			t.Errorf("%+v", f)
		}
	}
	cluster, err := setup.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	found, err := cluster.Form(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range found {
		if b.Name != members[i].Name || b.Kafka != members[i].Kafka || b.Admin != members[i].Admin || b.Raft != members[i].Raft || !b.Running {
			t.Errorf("found %+v, started %+v", b, members[i])
		}
	}
	added, err := cluster.Add(ctx)
	if err != nil || added.Admin != spare.Admin || added.Name != "b4" {
		t.Fatalf("added %+v, %v", added, err)
	}
	admin, err := client.New(client.Options{Endpoints: []string{found[0].Admin}, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Cluster.AddNode(ctx, &adminv1.AddNodeRequest{NodeAddr: "http://" + setups.AdminForBrokers(cluster, added)}); err != nil {
		t.Fatal(err)
	}

	_, noSpare := cluster.Add(ctx)
	_, start := cluster.Start(ctx, "b1")
	_, stop := cluster.Stop(ctx, "b1", time.Second)
	for what, err := range map[string]error{"add": noSpare, "start": start, "stop": stop,
		"kill": cluster.Kill(ctx, "b1"), "pause": cluster.Pause("b1"), "resume": cluster.Resume("b1")} {
		var refused *setups.Refused
		if !errors.As(err, &refused) || refused.Remedy == "" {
			t.Errorf("%s: %v, want a refusal with a remedy", what, err)
		}
	}
	if left := cluster.Close(ctx); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, b := range owner.Brokers() {
		if !b.Running {
			t.Errorf("%s does not run any more", b.Name)
		}
	}
}

// The example command starts, ends, freezes and restarts real brokers, and Close
// leaves the cluster with its own members alone.
func TestAttachWithABrokerCommand(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, owner, members := owned(t, ctx, 3)
	command, err := filepath.Abs("../attach/example-brokers.sh")
	if err != nil {
		t.Fatal(err)
	}
	binary, _ := owner.Binary()
	setup := attach.Setup{Admin: []string{members[0].Admin, members[1].Admin, members[2].Admin}, Command: command}
	dir := t.TempDir()
	cluster, err := setup.New(ctx, setups.Options{Dir: dir, Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close(context.Background()) })
	if _, err := cluster.Form(ctx, 3); err != nil {
		t.Fatal(err)
	}
	added, err := cluster.Add(ctx)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(client.Options{Endpoints: setup.Admin, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	joined, err := admin.Cluster.AddNode(ctx, &adminv1.AddNodeRequest{NodeAddr: "http://" + setups.AdminForBrokers(cluster, added)})
	if err != nil {
		t.Fatal(err)
	}
	commandLife(t, ctx, cluster, added)

	// What was made after a note is deleted; what others made is not.
	borrowed := cluster.(setups.Borrowed)
	for _, name := range []string{"noted", "others"} {
		if _, err := admin.Topics.CreateTopic(ctx, &adminv1.CreateTopicRequest{Name: "/default/" + name, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := borrowed.Note("noted", setups.TopicMade); err != nil {
		t.Fatal(err)
	}
	// As after a killed runner: by the journal alone, and again.
	for range 2 {
		if left, err := (attach.Setup{}).Clean(ctx, dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	if there, err := borrowed.Existing(ctx, []string{"noted", "others"}); err != nil || len(there) != 1 || there[0] != "others" {
		t.Errorf("topics %v, %v", there, err)
	}
	list, err := admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
	if err != nil || len(list.GetBrokers()) != 3 {
		t.Errorf("members %v, %v", list, err)
	}
	for _, b := range list.GetBrokers() {
		if b.GetBrokerId() == joined.GetNodeId() {
			t.Errorf("node %d is still a member", b.GetBrokerId())
		}
	}
	if conn, err := net.DialTimeout("tcp", added.Admin, time.Second); err == nil {
		conn.Close()
		t.Errorf("the added broker still listens on %s", added.Admin)
	}
	for _, b := range owner.Brokers() {
		if !b.Running {
			t.Errorf("%s does not run any more", b.Name)
		}
	}
}

// commandLife takes an added broker through every verb of the command.
func commandLife(t *testing.T, ctx context.Context, cluster setups.Cluster, added setups.Broker) {
	t.Helper()
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"pause", func() error { return cluster.Pause(added.Name) }},
		{"resume", func() error { return cluster.Resume(added.Name) }},
		{"kill", func() error { return cluster.Kill(ctx, added.Name) }},
		{"start after a kill", func() error { _, err := cluster.Start(ctx, added.Name); return err }},
		{"stop", func() error { _, err := cluster.Stop(ctx, added.Name, 20*time.Second); return err }},
		{"start after a stop", func() error { _, err := cluster.Start(ctx, added.Name); return err }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
	}
	if err := cluster.Kill(ctx, "b1"); err == nil || !strings.Contains(err.Error(), "b1 is not a broker that this command started") {
		t.Errorf("the example killed a broker of the owner's: %v", err)
	}
}

func TestAttachToAClusterWithoutAnAdminAPI(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o, _, members := owned(t, ctx, 1)
	cluster, err := attach.Setup{Bootstrap: []string{members[0].Kafka}}.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	found, err := cluster.Form(ctx, 1)
	if err != nil || len(found) != 1 || found[0].Kafka != members[0].Kafka || found[0].Admin != "" {
		t.Fatalf("found %+v, %v", found, err)
	}
	var refused *setups.Refused
	if _, err := cluster.Form(ctx, 3); !errors.As(err, &refused) {
		t.Errorf("a cluster of three was found: %v", err)
	}
}

func TestAttachChecksTheAddresses(t *testing.T) {
	for name, setup := range map[string]attach.Setup{
		"none": {}, "nobody there": {Admin: []string{"127.0.0.1:1"}}, "no Kafka protocol": {Bootstrap: []string{"127.0.0.1:1"}},
	} {
		findings := setup.Check(t.Context())
		if len(findings) == 0 || !findings[0].Fatal || findings[0].Remedy == "" {
			t.Errorf("%s: %+v", name, findings)
		}
		if _, err := setup.New(t.Context(), setups.Options{}); err == nil {
			t.Errorf("%s: a cluster", name)
		}
	}
}
