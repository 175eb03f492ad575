package health

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
)

// well is a cluster of three brokers with nothing to find.
func well() Facts {
	f := Facts{
		At: time.Unix(1_800_000_000, 0), Members: &adminv1.ListMembersResponse{}, Operations: &adminv1.ListOperationsResponse{}, Unread: map[string]string{},
		Topics:  []*adminv1.Topic{{Name: "/default/t", PartitionCount: 3, ReplicationFactor: 3, MinInsyncReplicas: 2}},
		Balance: &adminv1.Balance{CoefficientOfVariation: wrapperspb.Double(0)},
	}
	for id := int32(1); id <= 3; id++ {
		ahead := time.Duration(0)
		f.Members.Members = append(f.Members.Members, &adminv1.Member{NodeId: id, Role: adminv1.Member_VOTER, Controller: id == 2})
		f.Brokers = append(f.Brokers, &adminv1.Broker{BrokerId: id, State: adminv1.Node_ACTIVE, Endpoints: &adminv1.Endpoints{Admin: "h:1"}})
		f.Balance.Brokers = append(f.Balance.Brokers, &adminv1.Load{BrokerId: id, Leaders: 1})
		f.Nodes = append(f.Nodes, Node{
			ID: id, Status: &adminv1.GetStatusResponse{SelfNodeId: id, Ready: true, ClusterId: "c", ControllerId: 2, SelfVersion: "1"}, ClockAhead: &ahead,
			Metrics: map[string]float64{"ister_disk_capacity_bytes": 100, "ister_disk_free_bytes": 60, `ister_replica_count{role="offline"}`: 0},
		})
	}
	return f
}

func TestAWellClusterIsHealthy(t *testing.T) {
	r := Judge(well())
	if r.Status != Healthy || len(r.Findings) != 0 || r.Controller != 2 || *r.VotersAlive != 3 || *r.DiskFree != 60 || *r.LeadersCV != 0 || *r.ClockApartMS != 0 {
		t.Fatalf("%+v", r)
	}
	for _, c := range r.Checks {
		if c.Status != OK || c.Says == "" {
			t.Errorf("%+v", c)
		}
	}
}

func stop(f *Facts, i int) {
	f.Members.Members[i].Fenced, f.Brokers[i].Fenced = true, true
	f.Nodes[i] = Node{ID: f.Nodes[i].ID, Err: "connection refused"}
}

// Each illness alone is found under its code, at its object, and makes the status
// what it should be.
func TestEachIllnessIsFound(t *testing.T) {
	for _, c := range []struct {
		name   string
		plant  func(*Facts)
		code   string
		object string
		status Status
	}{
		{"a broker ended", func(f *Facts) { stop(f, 2) }, "BROKER_FENCED", "node 3", Unhealthy},
		{"and there is no spare voter", func(f *Facts) { stop(f, 2) }, "QUORUM_WITHOUT_SPARE", "voters", Unhealthy},
		{"two ended", func(f *Facts) { stop(f, 1); stop(f, 2) }, "QUORUM_LOST", "voters", Unhealthy},
		{"a broker waits", func(f *Facts) {
			f.Nodes[0].Status.Ready = false
			f.Nodes[0].Status.NotReadyReasons = []string{"catching up"}
		}, "BROKER_NOT_READY", "node 1", Unhealthy},
		{"a broker is not reached from here", func(f *Facts) { f.Nodes[0] = Node{ID: 1, Err: "timeout"} }, "BROKER_NOT_ASKED", "node 1", NotKnown},
		{"no controller is known", func(f *Facts) { f.Nodes[0].Status.ControllerId = 0 }, "NO_CONTROLLER", "node 1", Unhealthy},
		{"two controllers", func(f *Facts) { f.Nodes[0].Status.ControllerId = 1 }, "CONTROLLERS_DIFFER", "controller", Unhealthy},
		{"two clusters", func(f *Facts) { f.Nodes[0].Status.ClusterId = "d" }, "CLUSTERS_DIFFER", "cluster", Unhealthy},
		{"a partition is offline", func(f *Facts) { f.Topics[0].OfflinePartitions = 1 }, "PARTITIONS_OFFLINE", "/default/t", Unhealthy},
		{"a partition is behind", func(f *Facts) { f.Topics[0].UnderReplicatedPartitions = 1 }, "PARTITIONS_UNDER_REPLICATED", "/default/t", Degraded},
		{"a partition refuses writes", func(f *Facts) {
			f.Topics[0].UnderReplicatedPartitions = 1
			f.Topics[0].Partitions = []*adminv1.Partition{{Leader: 1, Replicas: []int32{1, 2, 3}, Isr: []int32{1}}}
		}, "PARTITIONS_BELOW_MIN_ISR", "/default/t", Unhealthy},
		{"copies are missing though there are brokers", func(f *Facts) {
			f.Topics[0].UndersizedPartitions = 1
		}, "PARTITIONS_UNDERSIZED", "/default/t", Degraded},
		{"more copies are wanted than there are brokers", func(f *Facts) {
			f.Topics[0].UndersizedPartitions, f.Topics[0].ReplicationFactor = 1, 5
		}, "TOO_FEW_BROKERS", "/default/t", Healthy},
		{"and one of those that are is behind", func(f *Facts) {
			f.Topics[0].UndersizedPartitions, f.Topics[0].UnderReplicatedPartitions, f.Topics[0].ReplicationFactor = 1, 1, 5
			f.Topics[0].Partitions = []*adminv1.Partition{{Leader: 1, Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2}}}
		}, "PARTITIONS_UNDER_REPLICATED", "/default/t", Degraded},
		{"an operation is stuck", func(f *Facts) {
			f.Operations.Operations = []*adminv1.Operation{{OperationId: 7, State: adminv1.Operation_BLOCKED, Reason: "NO_PLACEMENT"}}
		}, "OPERATION_BLOCKED", "op-7", Degraded},
		{"leaders crowd on one broker", func(f *Facts) {
			f.Balance.CoefficientOfVariation.Value = 1.4
			f.Balance.Brokers[0].Leaders = 9
		}, "LEADERS_UNBALANCED", "brokers", Healthy},
		{"little room", func(f *Facts) { f.Nodes[1].Metrics["ister_disk_free_bytes"] = 9 }, "DISK_LOW", "node 2", Degraded},
		{"no room", func(f *Facts) { f.Nodes[1].Metrics["ister_disk_free_bytes"] = 2 }, "DISK_FULL", "node 2", Unhealthy},
		{"a copy is out of use", func(f *Facts) { f.Nodes[1].Metrics[`ister_replica_count{role="offline"}`] = 1 }, "REPLICAS_OFFLINE", "node 2", Unhealthy},
		{"the disk failed", func(f *Facts) { f.Nodes[1].Metrics[`ister_replica_faults_total{reason="sync"}`] = 1 }, "DISK_FAULTS", "node 2", Degraded},
		{"a copy was set aside", func(f *Facts) { f.Nodes[1].Metrics["ister_replica_quarantined_total"] = 1 }, "REPLICAS_QUARANTINED", "node 2", Degraded},
		{"clocks disagree", func(f *Facts) { *f.Nodes[1].ClockAhead = 9 * time.Second }, "CLOCKS_APART", "node 2, node 1", Degraded},
		{"two versions", func(f *Facts) { f.Nodes[1].Status.SelfVersion = "2" }, "VERSIONS_DIFFER", "brokers", Degraded},
		{"metrics are not read", func(f *Facts) { f.Nodes[1].Metrics, f.Nodes[1].MetricsErr = nil, "status 404" }, "METRICS_NOT_READ", "node 2", NotKnown},
		{"topics are not read", func(f *Facts) { f.Topics, f.Unread["topics"] = nil, "no controller" }, "NOT_READ", "topics", NotKnown},
		{"brokers are not read", func(f *Facts) { f.Brokers = nil }, "NOT_READ", "brokers", NotKnown},
		{"nobody answers", func(f *Facts) { f.Nodes = nil }, "NOT_READ", "status", NotKnown},
		{"a learner", func(f *Facts) { f.Members.Members[0].Role = adminv1.Member_LEARNER }, "LEARNER", "node 1", Healthy},
		{"a drained broker", func(f *Facts) { f.Brokers[0].State = adminv1.Node_DRAINED }, "BROKER_NOT_ACTIVE", "node 1", Healthy},
	} {
		f := well()
		c.plant(&f)
		r := Judge(f)
		at := slices.IndexFunc(r.Findings, func(found Finding) bool { return found.Code == c.code && found.Object == c.object })
		if at < 0 || r.Status != c.status {
			t.Errorf("%s: %s, want %s with %s at %s: %+v", c.name, r.Status, c.status, c.code, c.object, r.Findings)
			continue
		}
		if found := r.Findings[at]; found.Message == "" || found.Remedy == "" {
			t.Errorf("%s: %+v", c.name, found)
		}
		if !slices.IsSortedFunc(r.Findings, func(a, b Finding) int { return rank(a.Severity) - rank(b.Severity) }) {
			t.Errorf("%s: the gravest is not first: %+v", c.name, r.Findings)
		}
	}
}

// A figure that nobody gave is null, not 0.
func TestWhatIsUnknownIsNoNumber(t *testing.T) {
	r := Judge(Facts{})
	if r.Status != NotKnown || r.Brokers != nil || r.Voters != nil || r.Partitions != nil || r.Offline != nil || r.LeadersCV != nil || r.DiskFree != nil || r.ClockApartMS != nil {
		t.Errorf("%+v", r)
	}
	f := well()
	delete(f.Nodes[0].Metrics, "ister_disk_free_bytes")
	if r := Judge(f); r.Status != NotKnown {
		t.Errorf("a disk without a figure: %s", r.Status)
	}
}

func TestMetricsAreReadOrRefused(t *testing.T) {
	got, err := parseMetrics("# TYPE a gauge\na 1\nb{x=\"y z\"} 2.5e3\n")
	if err != nil || got["a"] != 1 || got[`b{x="y z"}`] != 2500 {
		t.Errorf("%v, %v", got, err)
	}
	for _, page := range []string{"", "# only a comment\n", "<html>\n", "a one\n"} {
		if _, err := parseMetrics(page); err == nil || !strings.HasPrefix(err.Error(), "metrics: ") {
			t.Errorf("%q: %v", page, err)
		}
	}
}
