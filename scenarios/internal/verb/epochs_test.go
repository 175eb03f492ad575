package verb

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

func newWatch() *epochWatch {
	return &epochWatch{leaders: map[tenure]int32{}, newest: map[view]int32{}, first: map[history.Slot]int32{}}
}

// says is an answer of a broker about the one partition of topic t.
func says(leader, epoch int32) *kmsg.MetadataResponse {
	p := kmsg.NewMetadataResponseTopicPartition()
	p.Leader, p.LeaderEpoch = leader, epoch
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.Partitions = kmsg.StringPtr("t"), []kmsg.MetadataResponseTopicPartition{p}
	answer := kmsg.NewPtrMetadataResponse()
	answer.Topics = append(answer.Topics, topic)
	return answer
}

func TestEpochsThatChangeAreNoFault(t *testing.T) {
	w := newWatch()
	for _, v := range []struct {
		broker        string
		leader, epoch int32
	}{{"b1", 1, 3}, {"b2", 1, 3}, {"b2", -1, 4}, {"b2", 2, 4}, {"b3", 2, 4}, {"b1", 1, 3}, {"b1", 2, 4}, {"b2", 2, 5}} {
		w.note(v.broker, says(v.leader, v.epoch), nil)
	}
	if w.out.Conflicts != 0 || w.out.Regressed != 0 || w.out.Changed != 1 || w.out.Leaders != 3 || w.out.Views != 8 {
		t.Errorf("%+v", w.out)
	}
}

func TestTwoLeadersOfOneEpochAreAFault(t *testing.T) {
	w := newWatch()
	w.note("b1", says(1, 3), nil)
	w.note("b2", says(2, 3), nil)
	if w.out.Conflicts != 1 || !strings.Contains(w.out.FirstFault, "leader epoch 3 is of node 2, says b2") {
		t.Errorf("%+v", w.out)
	}
}

func TestEpochsOfOneBrokerDoNotGoBackWhileItAnswers(t *testing.T) {
	w := newWatch()
	w.note("b1", says(1, 3), nil)
	w.note("b1", nil, errors.New("killed")) // it may know less after a restart
	w.note("b1", says(1, 2), nil)
	if w.out.Regressed != 0 {
		t.Errorf("after a restart: %+v", w.out)
	}
	w.note("b1", says(1, 1), nil)
	if w.out.Regressed != 1 || !strings.Contains(w.out.FirstFault, "b1 named leader epoch 1 after 2") {
		t.Errorf("%+v", w.out)
	}
}
