package kafka

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

var rewrite = flag.Bool("rewrite", false, "write the goldens anew")

func TestApiVersionsGolden(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{})
	resp := dial(t, addrs[0]).request(kmsg.NewPtrApiVersionsRequest(), 0).(*kmsg.ApiVersionsResponse)
	var b strings.Builder
	for _, k := range resp.ApiKeys {
		fmt.Fprintf(&b, "%2d %-20s %d-%d\n", k.ApiKey, versionsOf(k.ApiKey).name, k.MinVersion, k.MaxVersion)
	}
	const golden = "testdata/api_versions.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the advertised versions changed; clients depend on them. Got:\n%swant:\n%s", b.String(), want)
	}
}

func TestVersionTableAgreesWithTheCodec(t *testing.T) {
	last := int16(-1)
	for _, v := range versions {
		if v.key.Int16() <= last {
			t.Errorf("%s is out of order", v.name)
		}
		last = v.key.Int16()
		req := kmsg.RequestForKey(v.key.Int16())
		for version := v.min; version <= v.max; version++ {
			req.SetVersion(version)
			if req.IsFlexible() != v.isFlexible(version) {
				t.Errorf("%s version %d: flexible is %t in the table", v.name, version, v.isFlexible(version))
			}
		}
		if v.max > req.MaxVersion() {
			t.Errorf("%s: version %d is above the codec's %d", v.name, v.max, req.MaxVersion())
		}
		_, small := handlers[v.key]
		if hot := v.key == kmsg.Produce || v.key == kmsg.Fetch; small == hot {
			t.Errorf("%s: has a handler: %t", v.name, small)
		}
	}
	if len(handlers) != len(versions)-2 {
		t.Errorf("%d handlers for %d APIs", len(handlers), len(versions))
	}
}

func TestUnsupportedPageAgreesWithTheTable(t *testing.T) {
	page, err := os.ReadFile("UNSUPPORTED.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		var key int16
		if _, err := fmt.Sscanf(strings.TrimSpace(cells[0]), "%d", &key); err != nil || len(cells) < 3 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[len(cells)-1] == "" {
			t.Errorf("no reason: %s", line)
		}
		got[strings.Join(cells[:len(cells)-1], " | ")] = true
	}
	want := map[string]bool{}
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		row := fmt.Sprintf("%d | %s", key, kmsg.NameForKey(key))
		if v := versionsOf(key); v != nil {
			var missing []string
			for version := range req.MaxVersion() + 1 {
				if !v.has(version) {
					missing = append(missing, fmt.Sprint(version))
				}
			}
			if missing == nil {
				continue
			}
			row += " | " + strings.Join(missing, ", ")
		}
		want[row] = true
	}
	for row := range want {
		if !got[row] {
			t.Errorf("UNSUPPORTED.md lacks: %s", row)
		}
	}
	for row := range got {
		if !want[row] {
			t.Errorf("UNSUPPORTED.md has what is served, or unknown: %s", row)
		}
	}
}

func TestEveryReasonHasAKafkaError(t *testing.T) {
	for _, reason := range refusal.Reasons() {
		e, ok := codes[reason]
		if !ok {
			t.Errorf("%s has no Kafka error", reason)
			continue
		}
		r := refusal.New(reason, "s", "m", "a")
		if got := codeOf(fmt.Errorf("wrapped: %w", r)); got != e.Code || got == 0 {
			t.Errorf("%s: code %d, want %d", reason, got, e.Code)
		}
		// UNKNOWN_SERVER_ERROR is for faults and for what should not happen.
		if e == kerr.UnknownServerError && refusal.KindOf(reason) != refusal.Internal {
			t.Errorf("%s is %s", reason, e.Message)
		}
		// What passes by itself must be retriable for clients.
		switch refusal.KindOf(reason) {
		case refusal.Redirect, refusal.Unavailable, refusal.Exhausted:
			if !e.Retriable {
				t.Errorf("%s is %s, which clients do not retry", reason, e.Message)
			}
		case refusal.Invalid:
			if e.Retriable && e != kerr.CorruptMessage && e != kerr.OffsetOutOfRange {
				t.Errorf("%s is %s, which clients retry in vain", reason, e.Message)
			}
		}
	}
	for reason := range codes {
		if !slices.Contains(refusal.Reasons(), reason) {
			t.Errorf("%s is mapped and not in the table of reasons", reason)
		}
	}
}

func TestFileMapListsExactlyTheFiles(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"doc.go": true}
	for line := range strings.Lines(string(doc)) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasSuffix(fields[1], ".go") {
			listed[fields[1]] = true
		}
	}
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") && !listed[f] {
			t.Errorf("doc.go does not list %s", f)
		}
		delete(listed, f)
	}
	for f := range listed {
		t.Errorf("doc.go lists %s, which is not there", f)
	}
}
