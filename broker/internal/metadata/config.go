package metadata

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

// ConfigType is the type of a topic setting, by Kafka's names.
type ConfigType string

// The types.
const (
	ConfigInt    ConfigType = "int"
	ConfigLong   ConfigType = "long"
	ConfigString ConfigType = "string"
)

// ConfigKey describes one topic setting.
type ConfigKey struct {
	Name    string
	Type    ConfigType
	Default string
	// NonReliable is the default of non_reliable topics, where it differs.
	NonReliable string
	Min, Max    int64    // bounds of numbers, inclusive
	Values      []string // the allowed values of strings
	Doc         string
}

// The keys of the topic settings.
const (
	KeyMinISR         = "min.insync.replicas"
	KeyFlushPolicy    = "flush.policy"
	KeyFlushMs        = "flush.ms"
	KeySegmentBytes   = "segment.bytes"
	KeyRetentionMs    = "retention.ms"
	KeyRetentionBytes = "retention.bytes"
	KeyMaxMessage     = "max.message.bytes"
	KeyCleanup        = "cleanup.policy"
	KeyCompression    = "compression.type"
	KeyTimestampType  = "message.timestamp.type"
	KeyUnclean        = "unclean.leader.election.enable"
)

// The values of flush.policy.
const (
	FlushSync     = "sync"     // fsync on every replica that counts, before an ack
	FlushInterval = "interval" // fsync each flush.ms; loses up to that if all replicas lose power at once
	FlushOS       = "os"       // when the operating system writes back
)

// ConfigKeys lists every topic setting, by name.
var ConfigKeys = []ConfigKey{
	{Name: KeyCleanup, Type: ConfigString, Default: "delete", Values: []string{"delete"},
		Doc: "What happens to old segments."},
	{Name: KeyCompression, Type: ConfigString, Default: "producer", Values: []string{"producer"},
		Doc: "Batches are stored as the producer compressed them."},
	{Name: KeyFlushMs, Type: ConfigLong, Default: "100", Min: 1, Max: 3_600_000,
		Doc: "Milliseconds between syncs under flush.policy=interval."},
	{Name: KeyFlushPolicy, Type: ConfigString, Default: FlushSync, NonReliable: FlushOS,
		Values: []string{FlushSync, FlushInterval, FlushOS},
		Doc:    "When appended records are synced: sync (before an ack, on every replica that counts), interval (each flush.ms; a power loss of all replicas at once loses what is younger), os (never by the broker)."},
	{Name: KeyMaxMessage, Type: ConfigInt, Default: "1048588", Min: 1024, Max: 64 << 20,
		Doc: "Largest record batch in bytes."},
	{Name: KeyTimestampType, Type: ConfigString, Default: "CreateTime", Values: []string{"CreateTime"},
		Doc: "Record times are the producer's."},
	{Name: KeyMinISR, Type: ConfigInt, Default: "2", NonReliable: "1", Min: 1, Max: 32,
		Doc: "In-sync replicas needed to commit; lowered to the replication factor where that is smaller."},
	{Name: KeyRetentionBytes, Type: ConfigLong, Default: "-1", Min: -1, Max: 1 << 60,
		Doc: "Bytes kept for each partition; -1 for no bound."},
	{Name: KeyRetentionMs, Type: ConfigLong, Default: "604800000", Min: -1, Max: 1 << 60,
		Doc: "Milliseconds a closed segment is kept; -1 for ever."},
	{Name: KeySegmentBytes, Type: ConfigInt, Default: "268435456", Min: 16 << 10, Max: 1 << 30,
		Doc: "Bytes at which a segment file is closed."},
	{Name: KeyUnclean, Type: ConfigString, Default: "false", Values: []string{"false"},
		Doc: "A replica outside the ISR never becomes leader by itself."},
}

// LookupConfig finds a setting by name.
func LookupConfig(name string) (ConfigKey, bool) {
	for _, k := range ConfigKeys {
		if k.Name == name {
			return k, true
		}
	}
	return ConfigKey{}, false
}

// DefaultFor is the setting's default in a dispatch class.
func (k ConfigKey) DefaultFor(d Dispatch) string {
	if d == NonReliable && k.NonReliable != "" {
		return k.NonReliable
	}
	return k.Default
}

// Check judges one value.
func (k ConfigKey) Check(value string) error {
	if k.Type == ConfigString {
		for _, v := range k.Values {
			if v == value {
				return nil
			}
		}
		return refusal.New(refusal.InvalidConfig, k.Name,
			fmt.Sprintf("%s is %q, expected one of %s", k.Name, value, strings.Join(k.Values, ", ")), "correct the value")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < k.Min || n > k.Max {
		return refusal.New(refusal.InvalidConfig, k.Name,
			fmt.Sprintf("%s is %q, expected a whole number from %d to %d", k.Name, value, k.Min, k.Max), "correct the value")
	}
	return nil
}

// CheckConfig judges a whole set of explicit settings.
func CheckConfig(config map[string]string) error {
	for _, k := range ConfigKeys {
		if v, ok := config[k.Name]; ok {
			if err := k.Check(v); err != nil {
				return err
			}
		}
	}
	for _, name := range sortedKeys(config) {
		if _, ok := LookupConfig(name); !ok {
			return refusal.New(refusal.InvalidConfig, name, fmt.Sprintf("setting %q is not known", name),
				"see `topics create --help` for the settings")
		}
	}
	return nil
}

// Setting is the value in force and whether it was set explicitly.
func (t *Topic) Setting(name string) (value string, explicit bool) {
	if v, ok := t.Config[name]; ok {
		return v, true
	}
	k, _ := LookupConfig(name)
	return k.DefaultFor(t.Dispatch), false
}

func (t *Topic) number(name string) int64 {
	v, _ := t.Setting(name)
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("metadata: topic %s: stored setting %s=%q is not a number", t.Name, name, v))
	}
	return n
}

// MinISR is min.insync.replicas as set; see Image.MinISR for what is in force.
func (t *Topic) MinISR() int { return int(t.number(KeyMinISR)) }

// FlushSync reports whether records are synced before an ack.
func (t *Topic) FlushSync() bool { v, _ := t.Setting(KeyFlushPolicy); return v == FlushSync }

// FlushInterval is the milliseconds between syncs, 0 unless flush.policy is
// interval.
func (t *Topic) FlushInterval() int64 {
	if v, _ := t.Setting(KeyFlushPolicy); v != FlushInterval {
		return 0
	}
	return t.number(KeyFlushMs)
}

// SegmentBytes is the size at which a segment is closed.
func (t *Topic) SegmentBytes() int64 { return t.number(KeySegmentBytes) }

// RetentionMs is how long closed segments are kept; -1 for ever.
func (t *Topic) RetentionMs() int64 { return t.number(KeyRetentionMs) }

// RetentionBytes is how much is kept for each partition; -1 for no bound.
func (t *Topic) RetentionBytes() int64 { return t.number(KeyRetentionBytes) }

// MaxMessageBytes bounds one record batch.
func (t *Topic) MaxMessageBytes() int { return int(t.number(KeyMaxMessage)) }
