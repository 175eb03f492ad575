package attach

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/setups"
)

// Bounds of the return, each of one thing that is taken back.
const (
	deleteMax = 20 * time.Second
	leaveMax  = time.Minute
	stopGrace = 10 * time.Second
)

// Existing implements setups.Borrowed.
func (c *cluster) Existing(ctx context.Context, topics []string) ([]string, error) {
	return existing(ctx, c.members(), topics)
}

// members are the Kafka addresses of the cluster.
func (c *cluster) members() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.journal.Bootstrap)
}

// Note implements setups.Borrowed.
func (c *cluster) Note(topic string, state setups.TopicState) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.journal.note(topic, state)
}

func existing(ctx context.Context, bootstrap, topics []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, deleteMax)
	defer cancel()
	admin, err := kafkaAdmin(bootstrap)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	all, err := admin.ListTopicsWithInternal(ctx) // all: asking for one by name may create it
	if err != nil {
		return nil, fmt.Errorf("ask %s for its topics: %w", strings.Join(bootstrap, ","), err)
	}
	return slices.DeleteFunc(slices.Clone(topics), func(name string) bool { return !all.Has(name) }), nil
}

func kafkaAdmin(bootstrap []string) (*kadm.Client, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RetryTimeout(deleteMax))
	if err != nil {
		return nil, fmt.Errorf("bootstrap addresses: %w", err)
	}
	return kadm.NewClient(c), nil
}

// Close takes back what the run made, and leaves the rest of the cluster as it
// is.
func (c *cluster) Close(ctx context.Context) []string {
	c.mu.Lock()
	done := c.closed
	c.closed = true
	c.mu.Unlock()
	if done {
		return nil
	}
	return c.giveBack(ctx)
}

// Clean implements setups.Cleaner, from the journal alone.
func (s Setup) Clean(ctx context.Context, dir string) ([]string, error) {
	j, err := loadJournal(dir)
	if err != nil || j == nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("find the run's directory: %w", err)
	}
	c := &cluster{setup: Setup{Admin: j.Admin, Bootstrap: j.Bootstrap, Command: j.Command}, options: setups.Options{Dir: dir}, journal: j}
	for _, b := range j.Joined {
		c.brokers = append(c.brokers, setups.Broker{Name: b.Name, Admin: b.Admin, Running: b.Running})
	}
	return c.giveBack(ctx), nil
}

// giveBack deletes the topics first: a broker without replicas leaves at once.
func (c *cluster) giveBack(ctx context.Context) []string {
	left := c.deleteTopics(ctx)
	c.mu.Lock()
	entries := slices.Clone(c.journal.Joined)
	c.mu.Unlock()
	for _, b := range entries {
		if err := c.leave(ctx, b); err != nil {
			// A member is not ended: the cluster may need its vote.
			left = append(left, fmt.Sprintf("broker %s at %s: %v", b.Name, b.Admin, err))
			continue
		}
		if b.Commanded && b.Running {
			if _, err := c.call(ctx, "stop", b.Name, graceVariable(stopGrace)); err != nil {
				left = append(left, fmt.Sprintf("broker %s: %v", b.Name, err))
				continue
			}
		}
		if err := c.left(b); err != nil {
			left = append(left, err.Error())
		}
	}
	return left
}

// left drops a broker that is gone from the journal.
func (c *cluster) left(b *joined) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal.Joined = slices.DeleteFunc(c.journal.Joined, func(other *joined) bool { return other == b })
	return c.journal.save()
}

// deleteTopics deletes the topics that the run made, and names those of which it
// does not know whether it did.
func (c *cluster) deleteTopics(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, deleteMax)
	defer cancel()
	var made, unknown []string
	c.mu.Lock()
	for _, t := range c.journal.Topics {
		if t.State == setups.TopicMade {
			made = append(made, t.Name)
		} else {
			unknown = append(unknown, t.Name)
		}
	}
	c.mu.Unlock()
	if len(made)+len(unknown) == 0 {
		return nil
	}
	var left []string
	admin, err := kafkaAdmin(c.members())
	if err != nil {
		return []string{fmt.Sprintf("topics %s: %v", strings.Join(append(made, unknown...), ", "), err)}
	}
	defer admin.Close()
	if len(made) > 0 {
		left = append(left, c.delete(ctx, admin, made)...)
	}
	if len(unknown) == 0 {
		return left
	}
	there, err := existing(ctx, c.members(), unknown)
	if err != nil {
		return append(left, fmt.Sprintf("topics %s, of which it is not known whether the run made them: %v", strings.Join(unknown, ", "), err))
	}
	for _, name := range unknown {
		if slices.Contains(there, name) {
			left = append(left, fmt.Sprintf("topic %s: its creation had no answer, so it may be somebody else's; delete it by hand when it is not", name))
		} else if err := c.Note(name, setups.TopicNotMade); err != nil {
			left = append(left, err.Error())
		}
	}
	return left
}

func (c *cluster) delete(ctx context.Context, admin *kadm.Client, names []string) (left []string) {
	answers, err := admin.DeleteTopics(ctx, names...)
	if err != nil {
		return []string{fmt.Sprintf("topics %s: delete them: %v", strings.Join(names, ", "), err)}
	}
	for _, name := range names {
		answer, ok := answers[name]
		if ok && (answer.Err == nil || errors.Is(answer.Err, kerr.UnknownTopicOrPartition)) {
			if err := c.Note(name, setups.TopicNotMade); err != nil {
				left = append(left, err.Error())
			}
			continue
		}
		left = append(left, fmt.Sprintf("topic %s: delete it: %v", name, answer.Err))
	}
	return left
}

// leave lets a broker that the run added leave the cluster, when it is a member.
func (c *cluster) leave(ctx context.Context, b *joined) error {
	if b.Incarnation == "" {
		return nil // it never answered, so it was never admitted
	}
	ctx, cancel := context.WithTimeout(ctx, leaveMax)
	defer cancel()
	admin, err := client.New(client.Options{Endpoints: c.journal.Admin, Actor: "attach"})
	if err != nil {
		return err
	}
	defer admin.Close()
	list, err := admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
	if err != nil {
		return fmt.Errorf("list the brokers: %w", err)
	}
	for _, member := range list.GetBrokers() {
		if member.GetIncarnation() != b.Incarnation {
			continue
		}
		if err := remove(ctx, admin, member.GetBrokerId()); err != nil {
			return fmt.Errorf("node %d is still a member: %w; by hand: ister admin brokers unload --broker-id %d --wait, then ister admin cluster remove-node --node-id %d",
				member.GetBrokerId(), err, member.GetBrokerId(), member.GetBrokerId())
		}
	}
	return nil
}

// remove drains a node and removes it, as soon as the cluster lets it.
func remove(ctx context.Context, admin *client.Client, id int32) error {
	for {
		err := tryRemove(ctx, admin, id)
		if err == nil {
			return nil
		}
		if client.AsRefusal(err) == nil {
			return err
		}
		if waitErr := pause(ctx, askEvery); waitErr != nil {
			return err
		}
	}
}

// tryRemove unloads a node and removes it. One that never was active is not
// unloaded and holds nothing: then the removal decides.
func tryRemove(ctx context.Context, admin *client.Client, id int32) error {
	unloaded, err := admin.Brokers.Unload(ctx, &adminv1.UnloadRequest{BrokerId: id})
	if err != nil && client.AsRefusal(err) == nil {
		return fmt.Errorf("unload it: %w", err)
	}
	if operation := unloaded.GetOperation().GetOperationId(); operation != 0 {
		if _, err := admin.WaitOperation(ctx, operation, nil); err != nil {
			return fmt.Errorf("unload it, operation %d: %w", operation, err)
		}
	}
	if _, err := admin.Cluster.RemoveNode(ctx, &adminv1.RemoveNodeRequest{NodeId: id, Reason: "the scenario that added it ended"}); err != nil {
		return fmt.Errorf("remove it: %w", err)
	}
	return nil
}
