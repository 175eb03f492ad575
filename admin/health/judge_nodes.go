package health

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// measured calls look for each node that is alive as far as it is known, with its
// metrics; those without are unknown. It returns how many had them.
func (j *judge) measured(what string, look func(Node)) int {
	fenced := map[int32]bool{}
	for _, b := range j.facts.Brokers {
		fenced[b.GetBrokerId()] = b.GetFenced()
	}
	read := 0
	for _, n := range j.facts.Nodes {
		switch {
		case fenced[n.ID]: // told as BROKER_FENCED
		case n.Metrics == nil:
			j.found(Unknown, "METRICS_NOT_READ", node(n.ID), "GET /metrics of its admin port must answer", "%s: the %s is not known: %s", node(n.ID), what, orUnknown(n.MetricsErr))
		default:
			read++
			look(n)
		}
	}
	return read
}

// replicas looks for copies that their broker took out of use.
func (j *judge) replicas() string {
	offline, faults := 0.0, 0.0
	read := j.measured("state of its replicas", func(n Node) {
		if out := n.Metrics[`ister_replica_count{role="offline"}`]; out > 0 {
			offline += out
			j.found(Error, "REPLICAS_OFFLINE", node(n.ID), "read its log for the disk fault; restart it when the disk is well", "%s has %.0f replicas out of use", node(n.ID), out)
		}
		sum := n.sum("ister_replica_faults_total")
		if faults += sum; sum > 0 {
			j.found(Warning, "DISK_FAULTS", node(n.ID), "look at its disk and its log; the count begins anew with a restart", "%s had %.0f disk faults since it started", node(n.ID), sum)
		}
		if aside := n.sum("ister_replica_quarantined_total"); aside > 0 {
			j.found(Warning, "REPLICAS_QUARANTINED", node(n.ID), "its log names the directories; they are kept for a look and may then be removed", "%s set %.0f replica directories aside since it started", node(n.ID), aside)
		}
	})
	return fmt.Sprintf("%.0f out of use, %.0f disk faults on %s", offline, faults, count(read, "broker"))
}

// disk checks how much room is left.
func (j *judge) disk() string {
	read := j.measured("room on its disk", func(n Node) {
		size, hasSize := n.Metrics["ister_disk_capacity_bytes"]
		free, hasFree := n.Metrics["ister_disk_free_bytes"]
		if !hasSize || !hasFree || size <= 0 {
			j.found(Unknown, "METRICS_NOT_READ", node(n.ID), "see ister_disk_free_bytes of its /metrics", "%s does not say how much room its disk has", node(n.ID))
			return
		}
		percent := 100 * free / size
		if j.report.DiskFree == nil || percent < *j.report.DiskFree {
			j.report.DiskFree = &percent
		}
		remedy := "make room, shorten retention, or move replicas away: `brokers unload`"
		switch {
		case percent < diskOutPercent:
			j.found(Error, "DISK_FULL", node(n.ID), remedy, "%s has %.1f %% of its disk free: it refuses writes below its reserve", node(n.ID), percent)
		case percent < diskLowPercent:
			j.found(Warning, "DISK_LOW", node(n.ID), remedy, "%s has %.1f %% of its disk free", node(n.ID), percent)
		}
	})
	if j.report.DiskFree == nil {
		return "not known"
	}
	return fmt.Sprintf("at least %.0f %% free on %s", *j.report.DiskFree, count(read, "broker"))
}

// clocks compares what the brokers' answers were dated with the time they were
// received. Dates have whole seconds.
func (j *judge) clocks() string {
	var least, most *Node
	for i := range j.facts.Nodes {
		n := &j.facts.Nodes[i]
		if n.ClockAhead == nil {
			continue
		}
		if least == nil || *n.ClockAhead < *least.ClockAhead {
			least = n
		}
		if most == nil || *n.ClockAhead > *most.ClockAhead {
			most = n
		}
	}
	if least == nil {
		return "not known"
	}
	apart := *most.ClockAhead - *least.ClockAhead
	ms := apart.Milliseconds()
	j.report.ClockApartMS = &ms
	if apart > clockApartMax {
		j.found(Warning, "CLOCKS_APART", node(most.ID)+", "+node(least.ID), "let a time service set them", "the clock of %s is %s ahead of that of %s: retention and offsets by time follow clocks", node(most.ID), apart.Round(time.Second), node(least.ID))
	}
	return fmt.Sprintf("at most %s apart", apart.Round(100*time.Millisecond))
}

// versions checks that all run one build.
func (j *judge) versions() string {
	by := map[string][]int32{}
	for _, n := range j.facts.Nodes {
		if n.Status != nil {
			by[n.Status.GetSelfVersion()] = append(by[n.Status.GetSelfVersion()], n.ID)
		}
	}
	for v := range by {
		j.report.Versions = append(j.report.Versions, v)
	}
	sort.Strings(j.report.Versions)
	if len(by) > 1 {
		j.found(Warning, "VERSIONS_DIFFER", "brokers", "finish the upgrade, one broker at a time", "brokers run different versions: %s", grouped(by))
	}
	if len(by) == 0 {
		return "not known"
	}
	return strings.Join(j.report.Versions, ", ")
}

// sum adds up a metric over its labels.
func (n Node) sum(name string) float64 {
	total := n.Metrics[name]
	for key, value := range n.Metrics {
		if strings.HasPrefix(key, name+"{") {
			total += value
		}
	}
	return total
}
