package node

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Config is everything a node is told from outside. The zero value is not
// usable; Load fills the defaults.
type Config struct {
	DataDir string // created when absent

	// Listen addresses, host:port. Port 0 takes a free one. Metrics "" serves
	// metrics on the admin port only.
	BrokerAddr, AdminAddr, RaftAddr, MetricsAddr string
	// Advertised addresses, host:port; "" is derived (see advertise.go).
	AdvertisedBroker, AdvertisedAdmin, AdvertisedRaft string

	SeedNodes []string // raft addresses of the nodes that form the cluster together
	Join      bool     // wait to be added
	NodeID    model.NodeID
	Rack      string

	LogLevel  string // debug, info, warn, error
	LogFormat string // text, json

	// MoveBytesPerSecond bounds what this node sends to replicas outside the
	// ISR, in bytes/s over all partitions; 0 is no bound.
	MoveBytesPerSecond int64
	// DiskReserveBytes is the free space below which appends are refused.
	DiskReserveBytes int64
	// RetiredGrace is how long a given-up copy stays on disk under another name.
	RetiredGrace time.Duration
}

// Setting is one row of the table of settings: a flag, its environment
// variable and its key in the config file.
type Setting struct {
	Name    string // of the flag; the file key has '_' for '-'
	Type    SettingType
	Default string
	Help    string
	set     func(c *Config, value string) error
}

// Env is the environment variable of the setting.
func (s Setting) Env() string { return "ISTER_" + strings.ToUpper(s.Key()) }

// Key is the key of the setting in a config file.
func (s Setting) Key() string { return strings.ReplaceAll(s.Name, "-", "_") }

// SettingType is the type of a setting's value, as errors name it.
type SettingType string

// The types.
const (
	TypeString   SettingType = "string"
	TypeAddress  SettingType = "address (host:port, :port or port)"
	TypeList     SettingType = "list of addresses"
	TypeBool     SettingType = "true or false"
	TypeInteger  SettingType = "integer"
	TypeBytes    SettingType = "bytes (an integer, or with KiB, MiB, GiB)"
	TypeDuration SettingType = "duration (such as 30s or 5m)"
)

// Settings is the table, in the order that help prints it.
var Settings = []Setting{
	{"data-dir", TypeString, "./ister-data", "directory of this node's data; formatted when empty", func(c *Config, v string) error {
		if v == "" {
			return fmt.Errorf("expected a directory")
		}
		c.DataDir = v
		return nil
	}},
	{"broker-addr", TypeAddress, "0.0.0.0:6650", "listen address for Kafka clients", address(func(c *Config) *string { return &c.BrokerAddr })},
	{"admin-addr", TypeAddress, "0.0.0.0:50051", "listen address for the admin API, health and metrics", address(func(c *Config) *string { return &c.AdminAddr })},
	{"raft-addr", TypeAddress, "0.0.0.0:7650", "listen address for all node-to-node traffic", address(func(c *Config) *string { return &c.RaftAddr })},
	{"prom-exporter", TypeAddress, "", "second listen address for metrics (usually 9040); empty: admin port only", optional(address(func(c *Config) *string { return &c.MetricsAddr }))},
	{"advertised-broker-addr", TypeAddress, "", "address that Kafka clients are given; derived when empty", advertised(func(c *Config) *string { return &c.AdvertisedBroker })},
	{"advertised-admin-addr", TypeAddress, "", "admin address that others are given; derived when empty", advertised(func(c *Config) *string { return &c.AdvertisedAdmin })},
	{"advertised-raft-addr", TypeAddress, "", "node-to-node address that others are given; derived when empty", advertised(func(c *Config) *string { return &c.AdvertisedRaft })},
	{"seed-nodes", TypeList, "", "raft addresses of the nodes that form the cluster together, this one included", seeds},
	{"join", TypeBool, "false", "wait to be added to an existing cluster, with ister admin cluster add-node", boolean(func(c *Config) *bool { return &c.Join })},
	{"node-id", TypeInteger, "0", "wanted node id, 1 or more; 0: the controller gives one", nodeID},
	{"rack", TypeString, "", "rack or zone, for spreading replicas", text(func(c *Config) *string { return &c.Rack })},
	{"log-level", TypeString, "info", "debug, info, warn or error", oneOf(func(c *Config) *string { return &c.LogLevel }, "debug", "info", "warn", "error")},
	{"log-format", TypeString, "text", "text or json", oneOf(func(c *Config) *string { return &c.LogFormat }, "text", "json")},
	{"move-bytes-per-second", TypeBytes, "64MiB", "bound on what this node sends to replicas being moved; 0: none", bytesOf(func(c *Config) *int64 { return &c.MoveBytesPerSecond })},
	{"disk-reserve-bytes", TypeBytes, "256MiB", "free disk space below which appends are refused", bytesOf(func(c *Config) *int64 { return &c.DiskReserveBytes })},
	{"retired-grace", TypeDuration, "1m", "how long the data of a given-up replica stays on disk", duration(func(c *Config) *time.Duration { return &c.RetiredGrace })},
}

// Lookup returns the setting with this flag name.
func Lookup(name string) (Setting, bool) {
	for _, s := range Settings {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

func address(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		a, err := parseListen(v)
		*field(c) = a
		return err
	}
}

func advertised(field func(*Config) *string) func(*Config, string) error {
	return optional(func(c *Config, v string) error {
		a, err := parseAdvertised(v)
		*field(c) = a
		return err
	})
}

// optional lets "" pass as the absent value.
func optional(set func(*Config, string) error) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" {
			return nil
		}
		return set(c, v)
	}
}

func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *field(c) = v; return nil }
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		switch v {
		case "true", "false":
			*field(c) = v == "true"
			return nil
		}
		return fmt.Errorf("expected true or false")
	}
}

func oneOf(field func(*Config) *string, allowed ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		for _, a := range allowed {
			if v == a {
				*field(c) = v
				return nil
			}
		}
		return fmt.Errorf("expected one of %s", strings.Join(allowed, ", "))
	}
}

func nodeID(c *Config, v string) error {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("expected an integer of 1 or more, or 0 for none")
	}
	c.NodeID = model.NodeID(n)
	return nil
}

func seeds(c *Config, v string) error {
	c.SeedNodes = nil
	for _, part := range strings.Split(v, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		a, err := parseSeed(part)
		if err != nil {
			return fmt.Errorf("%q: %w", part, err)
		}
		c.SeedNodes = append(c.SeedNodes, a)
	}
	sort.Strings(c.SeedNodes)
	for i := 1; i < len(c.SeedNodes); i++ {
		if c.SeedNodes[i] == c.SeedNodes[i-1] {
			return fmt.Errorf("%s is listed twice", c.SeedNodes[i])
		}
	}
	return nil
}

func bytesOf(field func(*Config) *int64) func(*Config, string) error {
	units := []struct {
		suffix string
		factor int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}
	return func(c *Config, v string) error {
		number, factor := v, int64(1)
		for _, u := range units {
			if rest, ok := strings.CutSuffix(v, u.suffix); ok {
				number, factor = strings.TrimSpace(rest), u.factor
			}
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/factor {
			return fmt.Errorf("expected a number of bytes such as 1048576 or 64MiB")
		}
		*field(c) = n * factor
		return nil
	}
}

func duration(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("expected a duration such as 30s or 5m")
		}
		*field(c) = d
		return nil
	}
}
