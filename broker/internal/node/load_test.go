package node

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeConfig puts a config file in a fresh directory and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ister.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func from(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := values[name]; return v, ok }
}

func TestLoadPrefersFlagThenEnvironmentThenFile(t *testing.T) {
	path := writeConfig(t, "rack: file\nlog_level: warn\nlog_format: json\ndisk_reserve_bytes: 1GiB\nretired_grace: 5s\nadmin_addr: 50999\n")
	c, err := Load(Sources{
		File: path,
		Env:  from(map[string]string{"ISTER_RACK": "env", "ISTER_LOG_LEVEL": "debug"}),
		Flag: from(map[string]string{"rack": "flag"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Rack != "flag" || c.LogLevel != "debug" || c.LogFormat != "json" || c.DataDir != "./ister-data" {
		t.Fatalf("rack %q log level %q format %q data dir %q", c.Rack, c.LogLevel, c.LogFormat, c.DataDir)
	}
	if c.DiskReserveBytes != 1<<30 || c.RetiredGrace != 5*time.Second || c.AdminAddr != "0.0.0.0:50999" {
		t.Fatalf("reserve %d grace %v admin %q", c.DiskReserveBytes, c.RetiredGrace, c.AdminAddr)
	}
}

func TestLoadAcceptsSeedsAsListOrText(t *testing.T) {
	for _, text := range []string{
		"seed_nodes: [127.0.0.1:7651, '127.0.0.1:7650', 7652]\n",
		"seed_nodes: 127.0.0.1:7652,7650,127.0.0.1:7651\n",
	} {
		c, err := Load(Sources{File: writeConfig(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.SeedNodes, " "); got != "127.0.0.1:7650 127.0.0.1:7651 127.0.0.1:7652" {
			t.Fatalf("%s: %s", text, got)
		}
	}
}

func TestLoadRefusesBadFilesWithLineKeyAndExpectation(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"rack: a\nadmin_adress: 1\n", `:2: key "admin_adress": unknown key; did you mean "admin_addr"?`},
		{"zzz: 1\n", `:1: key "zzz": unknown key; expected one of data_dir, broker_addr,`},
		{"rack: a\nrack: b\n", `:2: key "rack": given twice`},
		{"node_id: one\n", `:1: key "node_id": expected integer, got str "one"`},
		{"node_id: -1\n", `:1: key "node_id": value "-1": expected an integer of 1 or more`},
		{"join: yes please\n", `:1: key "join": expected true or false, got str "yes please"`},
		{"\n\nbroker_addr: [1, 2]\n", `:3: key "broker_addr": expected address (host:port, :port or port), got a list`},
		{"broker_addr: localhost\n", `:1: key "broker_addr": value "localhost": expected host:port`},
		{"broker_addr: h:99999\n", `port "99999": expected a number from 0 to 65535`},
		{"advertised_broker_addr: 0.0.0.0:1\n", "nobody can connect to a wildcard address"},
		{"advertised_broker_addr: host:0\n", "nobody can connect to port 0"},
		{"log_level: loud\n", `expected one of debug, info, warn, error`},
		{"seed_nodes: [a:1, [b]]\n", `:1: key "seed_nodes": line 1: expected an address, got a list`},
		{"seed_nodes: a:1,a:1\n", "a:1 is listed twice"},
		{"disk_reserve_bytes: 5 apples\n", "expected a number of bytes"},
		{"retired_grace: soon\n", "expected a duration"},
		{"- 1\n", ":1: expected a mapping of settings"},
		{"rack: [\n", "did not find expected"},
		{"seed_nodes: a:1\njoin: true\n", "--join and --seed-nodes exclude each other"},
		{"broker_addr: 7000\nadmin_addr: 7000\n", "--broker-addr and --admin-addr are both 0.0.0.0:7000"},
	} {
		_, err := Load(Sources{File: writeConfig(t, c.text)})
		var wrong *UsageError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestLoadNamesWhereABadValueCameFrom(t *testing.T) {
	_, err := Load(Sources{Env: from(map[string]string{"ISTER_NODE_ID": "x"})})
	if err == nil || !strings.Contains(err.Error(), `environment ISTER_NODE_ID: value "x"`) {
		t.Errorf("got %v", err)
	}
	_, err = Load(Sources{Flag: from(map[string]string{"admin-addr": "x"})})
	if err == nil || !strings.Contains(err.Error(), `flag --admin-addr: value "x"`) {
		t.Errorf("got %v", err)
	}
	if _, err = Load(Sources{File: filepath.Join(t.TempDir(), "absent.yaml")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAdvertiseNeverGivesWildcardsOrPortZero(t *testing.T) {
	listen := func(address string) net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	broker, admin, raft := listen("0.0.0.0:0"), listen("127.0.0.1:0"), listen("0.0.0.0:0")

	endpoints, hint := advertise(Config{}, broker, admin, raft, nil)
	if hint {
		t.Error("nothing hints at an address, yet a hint was reported")
	}
	if want := "127.0.0.1:" + portOf(broker); endpoints.Kafka != want || endpoints.Metrics != "" {
		t.Errorf("got %+v, want %s", endpoints, want)
	}

	seeds := []string{"localhost:" + portOf(raft), "localhost:1"}
	endpoints, hint = advertise(Config{SeedNodes: seeds}, broker, admin, raft, listen("0.0.0.0:0"))
	if want := "localhost:" + portOf(raft); endpoints.Raft != want || !hint {
		t.Errorf("got %+v %v, want raft %s as the seeds call it", endpoints, hint, want)
	}
	if !strings.HasPrefix(endpoints.Admin, "127.0.0.1:") || !strings.HasPrefix(endpoints.Metrics, "localhost:") {
		t.Errorf("got %+v", endpoints)
	}

	endpoints, hint = advertise(Config{AdvertisedBroker: "broker.example:9"}, broker, admin, raft, nil)
	if endpoints.Kafka != "broker.example:9" || !hint {
		t.Errorf("got %+v %v", endpoints, hint)
	}
}
