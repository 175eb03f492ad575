package telemetry_test

import (
	"bytes"
	"flag"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/ister-mq/ister/broker/internal/telemetry"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// Metric names are public: a change shows in this golden.
func TestTableMatchesGolden(t *testing.T) {
	const path = "testdata/metrics.txt"
	got := telemetry.Describe()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Fatalf("the metric table differs from %s; if that is meant, run with -rewrite\ngot:\n%s", path, got)
	}
}

func TestTableKeepsItsRules(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range telemetry.Table {
		if seen[m.Name] {
			t.Errorf("%s is listed twice", m.Name)
		}
		seen[m.Name] = true
		if !strings.HasPrefix(m.Name, "ister_") {
			t.Errorf("%s does not start with ister_", m.Name)
		}
		if (m.Kind == telemetry.Counter) != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: counters, and only they, end in _total", m.Name)
		}
		if (m.Label == "") != (len(m.Values) == 0) {
			t.Errorf("%s: a label needs its fixed values", m.Name)
		}
		if (m.Kind == telemetry.Histogram) != (len(m.Buckets) > 0) {
			t.Errorf("%s: histograms, and only they, have buckets", m.Name)
		}
		if m.Help == "" || m.Unit == "" {
			t.Errorf("%s: help and unit are required", m.Name)
		}
	}
}

func TestHandlerServesEveryMetric(t *testing.T) {
	m := telemetry.NewMetrics()
	m.ProduceBytes.Add(3)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range telemetry.Table {
		if !bytes.Contains(body, []byte(row.Name)) {
			t.Errorf("%s is not served", row.Name)
		}
	}
	if !bytes.Contains(body, []byte("ister_produce_bytes_total 3")) {
		t.Error("the counted bytes are not served")
	}
}

func TestLogWritesConstantMessageAndKeys(t *testing.T) {
	var b bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&b, nil))
	telemetry.Log(logger, telemetry.DiskFilled{FreeBytes: 5, ReserveBytes: 9})
	telemetry.Log(nil, telemetry.DiskFilled{})
	if got := b.String(); !strings.Contains(got, `msg="disk filled up, appends refused" free_bytes=5 reserve_bytes=9`) {
		t.Fatalf("got %s", got)
	}
}
