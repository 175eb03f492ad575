package byhand

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kinds are a Tryer with all that this machine can keep apart, and one with
// nothing, as on other systems.
func kinds(t *testing.T, options Options) map[string]*Tryer {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	out := map[string]*Tryer{"together": {options: options, apart: together}}
	out["together"].options.LineLimit, out["together"].options.SkillLimit = DefaultLineLimit, DefaultSkillLimit
	if options.LineLimit != 0 {
		out["together"].options.LineLimit = options.LineLimit
	}
	if full := New(options); full.apart != together {
		out["apart"] = full
	} else {
		t.Logf("not apart: %s", full.why)
	}
	return out
}

// left fails the test when something is in the directory for temporary files.
func left(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left: %s", e.Name())
	}
}

func try(t *testing.T, tryer *Tryer, lines ...string) Result {
	t.Helper()
	blocks, mistakes := Parse(skillOf(lines...))
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return tryer.Try(t.Context(), "a/SKILL.md", "a", blocks)
}

func TestLinesShareAShell(t *testing.T) {
	for name, tryer := range kinds(t, Options{Bin: "/nothing"}) {
		t.Run(name, func(t *testing.T) {
			r := try(t, tryer, "```bash",
				"A=7; mkdir d; cd d", "echo $A in $(basename $PWD)   # expect: 7 in d",
				"mkfifo pipe; (read -r x < pipe; exit 5) &", "P=$!", "kill -0 $P", "echo go > pipe; wait $P # expect: exit 5",
				"false # expect: exit 1", "cat # expect: exit 0", "echo x >&2 # expect: x", "```",
				"```bash", "echo $HOME # expect: home", "echo $A # expect: 7", "```")
			if r.State != Pass || len(r.Lines) != 11 || !r.Lines[1].Checked || r.Lines[0].Checked {
				t.Errorf("got %+v", r)
			}
			left(t)
		})
	}
}

func TestWhatDoesNotHoldIsShown(t *testing.T) {
	for name, tryer := range kinds(t, Options{LineLimit: time.Second}) {
		for line, want := range map[string]struct {
			state   State
			problem string
		}{
			"echo 11 # expect: 1":             {Fail, `line 10: "1" is not printed`},
			"echo 1; false # expect: 1":       {Fail, "line 10: exit status 1, want 0"},
			"echo 1 # expect: 2 within 250ms": {Fail, `line 10: "2" is not printed within 250ms`},
			"nosuchprogram":                   {Broken, "line 10: exit status 127, want 0"},
			"while true; do :; done":          {Broken, "line 10: not ended after 1s"},
			"exit 0":                          {Broken, "line 10: the shell ended"},
			"if true":                         {Broken, "line 10: exit status"},
			"echo starting & # expect: ready": {Fail, "line 10: not ended after 1s"},
		} {
			t.Run(name+"/"+line, func(t *testing.T) {
				r := try(t, tryer, "```bash", line, "echo never", "```")
				if r.State != want.state || !strings.HasPrefix(r.Problem, want.problem) || len(r.Lines) != 1 {
					t.Errorf("got %+v", r)
				}
				left(t)
			})
		}
	}
}

func TestOutputAndLogsAreKeptOfAFailure(t *testing.T) {
	tryer := kinds(t, Options{})["together"]
	r := try(t, tryer, "```bash", "seq 5 >b1.log; seq 30; false", "```")
	if line := r.Lines[0]; !strings.HasSuffix(line.Output, "29\n30") || strings.HasPrefix(line.Output, "1\n") || line.Logs != "b1.log:\n3\n4\n5" {
		t.Errorf("got %+v", line)
	}
}

func TestALineIsRepeatedUntilItHolds(t *testing.T) {
	for name, tryer := range kinds(t, Options{}) {
		t.Run(name, func(t *testing.T) {
			r := try(t, tryer, "```bash", "N=0",
				"N=$((N+1)); echo count $N; [ $N -ge 3 ] # expect: count 3 within 1m", "```")
			if r.State != Pass {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestABackgroundLineIsWaitedFor(t *testing.T) {
	for name, tryer := range kinds(t, Options{}) {
		t.Run(name, func(t *testing.T) {
			r := try(t, tryer, "```bash", "mkfifo never", "{ read -rt 0.3 x <>never; echo is late; read -r x <>never; } & # expect: is late within 1m", "```")
			if r.State != Pass || r.Lines[1].Seconds < 0.3 {
				t.Errorf("got %+v", r)
			}
			left(t)
		})
	}
}

// Whatever lines start ends with the try: jobs, and with processes of its own
// also what leaves its group.
func TestNothingIsLeftRunning(t *testing.T) {
	outside := t.TempDir()
	for name, tryer := range kinds(t, Options{}) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(outside, "marker")
			daemon := "setsid"
			if name == "together" {
				daemon = ""
			}
			r := try(t, tryer, "```bash", fmt.Sprintf("(exec -a marker-%d %s sleep 600 9>%s) &", os.Getpid(), daemon, file), "sleep 600 &", "```")
			if r.State != Pass {
				t.Fatalf("got %+v", r)
			}
			if pids := holders(t, file); len(pids) > 0 {
				t.Errorf("processes %v are left", pids)
			}
			left(t)
		})
	}
}

// holders are the processes that have a file open.
func holders(t *testing.T, file string) (pids []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/fd/9")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == file {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestAnInterruptEndsATry(t *testing.T) {
	for name, tryer := range kinds(t, Options{}) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			tryer.options.Say = func(string, LineResult) { cancel() }
			blocks, _ := Parse(skillOf("```bash", "true", "sleep 600", "```"))
			if r := tryer.Try(ctx, "a/SKILL.md", "a", blocks); r.State != Interrupted {
				t.Errorf("got %+v", r)
			}
			tryer.options.Say = nil
			left(t)
		})
	}
}

func TestNeedsThatAreNotMetAreNotTried(t *testing.T) {
	source := t.TempDir()
	tryer := kinds(t, Options{Source: source})["together"]
	r := try(t, tryer, "```bash needs=docker", "false", "true", "```", "```bash needs=nosuchprogram", "false", "```",
		"```bash needs=bash,source", "pwd # expect: "+source, "```", "```bash", "basename $PWD # expect: work", "```")
	if got := fmt.Sprint(r.NotTried); r.State != Pass || len(r.Lines) != 2 || got != "[{9 2 docker} {13 1 nosuchprogram}]" {
		t.Errorf("got %+v", r)
	}
	if r = try(t, tryer, "```bash needs=python:no_such_module", "false", "```"); r.State != NotTried || len(r.Lines) != 0 {
		t.Errorf("got %+v", r)
	}
	if r = try(t, tryer, "No block."); r.State != None {
		t.Errorf("got %+v", r)
	}
}

func TestPortsThatAreTakenAreNamed(t *testing.T) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(socket, 1); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*syscall.SockaddrInet4).Port
	for kind, tryer := range kinds(t, Options{}) {
		r := try(t, tryer, "```bash", fmt.Sprintf("echo 127.0.0.1:%d", port), "```")
		if kind == "apart" && r.State != Pass || kind == "together" && (r.State != Environment || !strings.Contains(r.Problem, fmt.Sprint(port))) {
			t.Errorf("%s: got %+v", kind, r)
		}
	}
}
