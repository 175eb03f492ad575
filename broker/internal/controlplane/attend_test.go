package controlplane

import (
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

func TestReportsAreSentWhenTheyHaveNews(t *testing.T) {
	p, q := model.Partition{Topic: model.TopicID{1}}, model.Partition{Topic: model.TopicID{1}, Index: 1}
	steady := Report{Known: true, Disk: Disk{TotalBytes: 1_000_000, FreeBytes: 500_000, Known: true}, Bytes: map[model.Partition]int64{p: 10, q: 20}}
	with := func(change func(*Report)) Report {
		r := steady
		r.Bytes = map[model.Partition]int64{p: 10, q: 20}
		change(&r)
		return r
	}
	const every = 500 * time.Millisecond
	start := time.Now()
	for _, c := range []struct {
		name  string
		after time.Duration
		every time.Duration
		now   Report
		sent  bool
	}{
		{"not yet time to look", every / 2, every, with(func(r *Report) { r.Bytes[p] = 11 }), false},
		{"no news", every, every, steady, false},
		{"free space drifts", every, every, with(func(r *Report) { r.Disk.FreeBytes -= 900 }), false},
		{"free space shrinks", every, every, with(func(r *Report) { r.Disk.FreeBytes -= 1100 }), true},
		{"free space is no longer known", every, every, with(func(r *Report) { r.Disk = Disk{} }), true},
		{"the disk is full", every, every, with(func(r *Report) { r.Disk.Full = true }), true},
		{"a replica grew", every, every, with(func(r *Report) { r.Bytes[p] = 11 }), true},
		{"a replica is gone", every, every, with(func(r *Report) { delete(r.Bytes, q) }), true},
		{"a follower falls behind", every, every, with(func(r *Report) { r.Progress = []Progress{{Partition: p, Node: 2}} }), true},
		{"a copy was given up", every, every, with(func(r *Report) { r.Retired = []model.Partition{q} }), true},
		{"the data plane stops", every, every, with(func(r *Report) { r.Known = false }), true},
		{"old without news", reportRefresh, every, steady, true},
		{"operations live: every heartbeat is looked at", time.Millisecond, 0, with(func(r *Report) { r.Bytes[p] = 11 }), true},
	} {
		var told told
		if told.next(start, every, func() Report { return steady }) == nil {
			t.Fatalf("%s: the first heartbeat carries no report", c.name)
		}
		told.took(steady, start)
		if got := told.next(start.Add(c.after), c.every, func() Report { return c.now }) != nil; got != c.sent {
			t.Errorf("%s: sent %v, want %v", c.name, got, c.sent)
		}
		told.forget()
		if told.next(start.Add(c.after), c.every, func() Report { return steady }) == nil {
			t.Errorf("%s: another controller is told nothing", c.name)
		}
	}
}
