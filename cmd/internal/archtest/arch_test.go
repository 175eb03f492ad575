// Package archtest holds the layout to its one rule: imports point down.
package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ister-mq/ister/"

// layers lists every package, lowest first. A package imports only from lines
// above its own. One that is missing fails the test, so that a new package is
// always a decision about where it belongs.
var layers = [][]string{
	// words
	{"github.com/ister-mq/ister"}, // skills, for the binaries
	{"broker/internal/model", "admin/adminv1", "scenarios/internal/history", "setups"},
	{"broker/internal/refusal", "admin/adminv1/adminv1connect"},
	{"broker/internal/record"},
	// decisions
	{"broker/internal/metadata", "broker/internal/replication"},
	{"broker/internal/placement"},
	{"broker/internal/operation"},
	// storage
	{"broker/internal/vfs"},
	{"broker/internal/vfs/vfstest"},
	{"broker/internal/segment"},
	{"broker/internal/replica"},
	// adapters
	{"broker/internal/quorum", "broker/internal/kafka", "broker/internal/peer", "broker/internal/adminapi", "broker/internal/telemetry"},
	// shell
	{"broker/internal/controlplane", "broker/internal/dataplane"},
	{"broker/internal/node", "broker/internal/sim"},
	{"broker", "broker/internal/sim/cmd"},
	// tools, through the admin API and Kafka clients only
	{"admin/client", "scenarios/internal/spec", "scenarios/internal/byhand", "scenarios/internal/verdict", "setups/internal/build"},
	{"setups/process"},
	{"setups/internal/docker"},
	{"admin/health"},
	{"admin/cli", "scenarios/internal/load", "scenarios/internal/report", "setups/fault", "setups/attach"},
	{"setups/container", "setups/netns"},
	{"setups/compose"},
	{"scenarios/internal/verb", "setups/setuptest"},
	{"scenarios/internal/run"},
	{"scenarios", "scenarios/internal/fakecluster"},
	{"scenarios/scenariotest"},
	{"mcp"},
	{"cmd/ister", "cmd/scenario", "clients/go"},
	{"cmd/internal/archtest", "cmd/internal/bench"},
}

// decisions are the packages whose functions must replay identically.
var decisions = []string{
	"broker/internal/metadata", "broker/internal/placement", "broker/internal/operation",
	"broker/internal/replication", "scenarios/internal/verdict",
	"broker/internal/model", "broker/internal/refusal", "broker/internal/record",
}

var impure = map[string]string{
	"context": "decisions do not wait", "os": "decisions do no I/O", "net": "decisions do no I/O",
	"sync/atomic": "decisions are single-threaded",
	"log/slog":    "return an event instead", "crypto/rand": "take an ID generator",
}

// seeded are the names of math/rand that take their randomness from a seed;
// its other functions share a source that nobody seeded.
var seeded = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "Rand", "Source", "PCG", "ChaCha8"}

// walls name who may not reach whom, whatever the layers say.
var walls = []struct{ from, to, why string }{
	{"admin/", "broker", "the contract does not know the broker"},
	{"mcp", "broker", "agents use the admin API"},
	{"scenarios", "broker", "a scenario that peeks inside proves nothing"},
	{"setups", "broker", "a setup starts binaries"},
	{"broker", "admin/cli", "the broker does not know its tools"},
	{"broker", "scenarios", "the broker does not know its tools"},
}

// adapters never import each other.
var adapters = []string{
	"broker/internal/quorum", "broker/internal/kafka", "broker/internal/peer",
	"broker/internal/adminapi", "broker/internal/telemetry",
}

type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "../../../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportsPointDown(t *testing.T) {
	level := map[string]int{}
	for i, l := range layers {
		for _, p := range l {
			level[p] = i
		}
	}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		mine, ok := level[name]
		if !ok {
			t.Errorf("%s has no layer: add it to layers", name)
			continue
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, module)
			if ours && level[dep] >= mine {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports point down only", name, mine, dep, level[dep])
			}
		}
	}
}

func TestProductsKeepTheirWalls(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			dep, _ := strings.CutPrefix(imp, module)
			for _, w := range walls {
				if strings.HasPrefix(name, w.from) && strings.HasPrefix(dep, w.to) {
					t.Errorf("%s imports %s: %s", name, dep, w.why)
				}
			}
			if slices.Contains(adapters, name) && slices.Contains(adapters, dep) {
				t.Errorf("%s imports %s: adapters never import each other", name, dep)
			}
		}
	}
}

func TestDecisionsArePure(t *testing.T) {
	for _, p := range list(t) {
		if slices.Contains(decisions, strings.TrimPrefix(p.ImportPath, module)) {
			for _, f := range p.GoFiles {
				checkPure(t, filepath.Join(p.Dir, f))
			}
		}
	}
}

func checkPure(t *testing.T, path string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, im := range file.Imports {
		name, _ := strconv.Unquote(im.Path.Value)
		if why, bad := impure[name]; bad {
			t.Errorf("%s imports %q: %s", fset.Position(im.Pos()), name, why)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
			t.Errorf("%s: decisions start no goroutine and hold no channel", fset.Position(n.Pos()))
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if ok && id.Name == "rand" && !slices.Contains(seeded, n.Sel.Name) {
				t.Errorf("%s: rand.%s: take a seeded source", fset.Position(n.Pos()), n.Sel.Name)
			}
			if ok && id.Name == "time" {
				switch n.Sel.Name {
				case "Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "Tick", "AfterFunc":
					t.Errorf("%s: time.%s: take now as a parameter", fset.Position(n.Pos()), n.Sel.Name)
				}
			}
		}
		return true
	})
}

// TestFileMapsAreTrue checks that a doc.go which names files names exactly
// those that are there.
func TestFileMapsAreTrue(t *testing.T) {
	named := regexp.MustCompile(`\b[a-z0-9_]+[*]?\.go\b`)
	for _, p := range list(t) {
		raw, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			continue
		}
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		present := map[string]bool{}
		for _, e := range entries {
			if n := e.Name(); strings.HasSuffix(n, ".go") && !strings.HasSuffix(n, "_test.go") && n != "doc.go" {
				present[n] = true
			}
		}
		seen := map[string]bool{}
		for _, n := range named.FindAllString(string(raw), -1) {
			if n != "doc.go" && !strings.HasSuffix(n, "_test.go") {
				seen[n] = true
			}
		}
		if len(seen) == 0 {
			continue
		}
		for n := range present {
			if !matches(seen, n) {
				t.Errorf("%s/doc.go does not name %s", p.ImportPath, n)
			}
		}
		for n := range seen {
			if !strings.Contains(n, "*") && !present[n] {
				t.Errorf("%s/doc.go names %s, which is not there", p.ImportPath, n)
			}
		}
	}
}

// matches reports whether a file is named, or meant by a pattern such as
// plant_*.go.
func matches(seen map[string]bool, file string) bool {
	for n := range seen {
		if ok, _ := filepath.Match(n, file); ok {
			return true
		}
	}
	return false
}
