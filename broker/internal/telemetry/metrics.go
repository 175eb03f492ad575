package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are one node's metrics, one field per row of Table. All methods of
// the fields are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	NodeReady, NodeIsController, NodeRevision prometheus.Gauge
	DiskCapacity, DiskFree                    prometheus.Gauge

	ReplicasLeader, ReplicasFollower, ReplicasOffline prometheus.Gauge
	UnderReplicated, UnderMinISR                      prometheus.Gauge
	LeaderChanges                                     prometheus.Counter
	ISRExpanded, ISRShrunk, ISRRefused                prometheus.Counter
	Faults                                            *prometheus.CounterVec // label reason
	Quarantined, TruncatedBytes                       prometheus.Counter

	ProduceAccepted, ProduceRefused, ProduceFailed prometheus.Counter
	ProduceBytes                                   prometheus.Counter
	ProduceLatency                                 prometheus.Histogram
	FetchConsumer, FetchFollower, FetchMove        prometheus.Counter
	ReplicateBytes, ReplicateThrottled             prometheus.Counter
	FlushLatency                                   prometheus.Histogram
	RetentionBytes                                 prometheus.Counter
}

// NewMetrics builds the metrics of one node in a registry of their own, with
// the usual Go and process collectors.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b := builder{registry: r, gauges: map[string]*prometheus.GaugeVec{}, counters: map[string]*prometheus.CounterVec{}, histograms: map[string]prometheus.Histogram{}}
	for _, m := range Table {
		b.register(m)
	}
	return &Metrics{
		registry:  r,
		NodeReady: b.gauge("ister_node_ready", ""), NodeIsController: b.gauge("ister_node_is_controller", ""),
		NodeRevision: b.gauge("ister_node_metadata_revision", ""),
		DiskCapacity: b.gauge("ister_disk_capacity_bytes", ""), DiskFree: b.gauge("ister_disk_free_bytes", ""),

		ReplicasLeader: b.gauge("ister_replica_count", "leader"), ReplicasFollower: b.gauge("ister_replica_count", "follower"),
		ReplicasOffline: b.gauge("ister_replica_count", "offline"),
		UnderReplicated: b.gauge("ister_replica_under_replicated_count", ""), UnderMinISR: b.gauge("ister_replica_under_min_isr_count", ""),
		LeaderChanges: b.counter("ister_replica_leader_changes_total", ""),
		ISRExpanded:   b.counter("ister_replica_isr_changes_total", "expand"), ISRShrunk: b.counter("ister_replica_isr_changes_total", "shrink"),
		ISRRefused:  b.counter("ister_replica_isr_changes_total", "refused"),
		Faults:      b.counters["ister_replica_faults_total"],
		Quarantined: b.counter("ister_replica_quarantined_total", ""), TruncatedBytes: b.counter("ister_replica_truncated_bytes_total", ""),

		ProduceAccepted: b.counter("ister_produce_requests_total", "accepted"), ProduceRefused: b.counter("ister_produce_requests_total", "refused"),
		ProduceFailed: b.counter("ister_produce_requests_total", "failed"),
		ProduceBytes:  b.counter("ister_produce_bytes_total", ""), ProduceLatency: b.histograms["ister_produce_latency_seconds"],
		FetchConsumer: b.counter("ister_fetch_bytes_total", "consumer"), FetchFollower: b.counter("ister_fetch_bytes_total", "follower"),
		FetchMove:      b.counter("ister_fetch_bytes_total", "move"),
		ReplicateBytes: b.counter("ister_replicate_bytes_total", ""), ReplicateThrottled: b.counter("ister_replicate_throttled_total", ""),
		FlushLatency: b.histograms["ister_flush_seconds"], RetentionBytes: b.counter("ister_retention_deleted_bytes_total", ""),
	}
}

// Handler serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Registry lets another adapter of the node add collectors of its own.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

type builder struct {
	registry   *prometheus.Registry
	gauges     map[string]*prometheus.GaugeVec
	counters   map[string]*prometheus.CounterVec
	histograms map[string]prometheus.Histogram
}

func (b *builder) register(m Metric) {
	var labels []string
	if m.Label != "" {
		labels = []string{m.Label}
	}
	switch m.Kind {
	case Gauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, labels)
		b.registry.MustRegister(v)
		b.gauges[m.Name] = v
	case Counter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, labels)
		b.registry.MustRegister(v)
		b.counters[m.Name] = v
		for _, value := range m.Values {
			v.WithLabelValues(value) // every series exists from the start, at 0
		}
	case Histogram:
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets})
		b.registry.MustRegister(h)
		b.histograms[m.Name] = h
	}
}

func (b *builder) gauge(name, label string) prometheus.Gauge {
	return b.gauges[name].WithLabelValues(values(label)...)
}

func (b *builder) counter(name, label string) prometheus.Counter {
	return b.counters[name].WithLabelValues(values(label)...)
}

func values(label string) []string {
	if label == "" {
		return nil
	}
	return []string{label}
}
