package telemetry

import (
	"fmt"
	"strings"
)

// Kind is how a metric behaves.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"   // only grows; its name ends in _total
	Gauge     Kind = "gauge"     // goes up and down
	Histogram Kind = "histogram" // distribution over Buckets
)

// Metric is one row of the table.
type Metric struct {
	Name    string
	Kind    Kind
	Unit    string // bytes, seconds, or what is counted
	Label   string // "" for none; every label has the fixed Values
	Values  []string
	Buckets []float64 // histograms only, in Unit
	Help    string
}

// latencyBuckets cover 0.25 ms to 10 s.
var latencyBuckets = []float64{.00025, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Table lists every metric of a node, by area.
var Table = []Metric{
	{Name: "ister_node_ready", Kind: Gauge, Unit: "boolean", Help: "1 when the node is admitted, caught up, registered and unfenced"},
	{Name: "ister_node_is_controller", Kind: Gauge, Unit: "boolean", Help: "1 on the active controller"},
	{Name: "ister_node_metadata_revision", Kind: Gauge, Unit: "revision", Help: "revision of the metadata image this node acts on"},
	{Name: "ister_disk_capacity_bytes", Kind: Gauge, Unit: "bytes", Help: "size of the file system that holds the data directory"},
	{Name: "ister_disk_free_bytes", Kind: Gauge, Unit: "bytes", Help: "bytes of it that this process may still use"},

	{Name: "ister_replica_count", Kind: Gauge, Unit: "replicas", Label: "role", Values: []string{"leader", "follower", "offline"}, Help: "replicas on this node by role"},
	{Name: "ister_replica_under_replicated_count", Kind: Gauge, Unit: "partitions", Help: "partitions led here whose ISR is smaller than their replica set"},
	{Name: "ister_replica_under_min_isr_count", Kind: Gauge, Unit: "partitions", Help: "partitions led here that refuse acks=all because the ISR is too small"},
	{Name: "ister_replica_leader_changes_total", Kind: Counter, Unit: "changes", Help: "times a replica here became leader"},
	{Name: "ister_replica_isr_changes_total", Kind: Counter, Unit: "changes", Label: "change", Values: []string{"expand", "shrink", "refused"}, Help: "ISR changes proposed by leaders here, by outcome"},
	{Name: "ister_replica_faults_total", Kind: Counter, Unit: "faults", Label: "reason", Values: []string{"open", "append", "sync", "read", "disk_full"}, Help: "disk faults that took a replica offline, by what failed"},
	{Name: "ister_replica_quarantined_total", Kind: Counter, Unit: "replicas", Help: "replica directories set aside since the start: corrupt in the middle, or not known to the metadata"},
	{Name: "ister_replica_truncated_bytes_total", Kind: Counter, Unit: "bytes", Help: "bytes cut from log ends by recovery"},

	{Name: "ister_produce_requests_total", Kind: Counter, Unit: "requests", Label: "outcome", Values: []string{"accepted", "refused", "failed"}, Help: "partition writes asked of this node, by outcome"},
	{Name: "ister_produce_bytes_total", Kind: Counter, Unit: "bytes", Help: "batch bytes appended as leader"},
	{Name: "ister_produce_latency_seconds", Kind: Histogram, Unit: "seconds", Buckets: latencyBuckets, Help: "from receipt of a partition write to its acknowledgement"},
	{Name: "ister_fetch_bytes_total", Kind: Counter, Unit: "bytes", Label: "to", Values: []string{"consumer", "follower", "move"}, Help: "batch bytes served, by who asked; move is a replica outside the ISR"},
	{Name: "ister_replicate_bytes_total", Kind: Counter, Unit: "bytes", Help: "batch bytes appended as follower"},
	{Name: "ister_replicate_throttled_total", Kind: Counter, Unit: "reads", Help: "reads for replicas outside the ISR that the move throttle put off"},
	{Name: "ister_flush_seconds", Kind: Histogram, Unit: "seconds", Buckets: latencyBuckets, Help: "from a flush request to its durability"},
	{Name: "ister_retention_deleted_bytes_total", Kind: Counter, Unit: "bytes", Help: "bytes deleted by retention"},
}

// Describe prints the table, one row a line, for the golden and the docs.
func Describe() string {
	var b strings.Builder
	for _, m := range Table {
		label := "-"
		if m.Label != "" {
			label = m.Label + "=" + strings.Join(m.Values, "|")
		}
		fmt.Fprintf(&b, "%s  %s  %s  %s  %s\n", m.Name, m.Kind, m.Unit, label, m.Help)
	}
	return b.String()
}
