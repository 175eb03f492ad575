//go:build containers

package setuptest_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// images are those on the engine, layers of half a build included.
func images(t *testing.T) map[string][]string {
	list, err := engine(t).ImageList(t.Context(), client.ImageListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, i := range list.Items {
		found[i.ID] = i.RepoTags
	}
	return found
}

// leftOnEngine wants nothing of a run on the engine. before are the images that
// were there.
func (s *subject) leftOnEngine(before map[string][]string) {
	s.Helper()
	if rest := left(s.T, s.dir); len(rest) > 0 {
		s.Errorf("on the engine: %v", rest)
	}
	for id, tags := range images(s.T) {
		if _, old := before[id]; !old && (len(tags) == 0 || strings.HasPrefix(tags[0], "ister-scenario:")) {
			s.Errorf("on the engine: image %s %v", id, tags)
		}
	}
}

// hasFile waits until the run's directory has a file.
func (s *subject) hasFile(name string) {
	s.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			return
		}
		if s.isOver() || time.Now().After(deadline) {
			s.Fatalf("the run has no file %s:\n%s", name, s.output)
		}
	}
}

// hasLayer waits until the engine has a layer of an image that is being built.
func (s *subject) hasLayer() {
	s.Helper()
	before := images(s.T)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		for id := range images(s.T) {
			if _, old := before[id]; !old {
				return
			}
		}
		if s.isOver() || time.Now().After(deadline) {
			s.Fatalf("no image was built:\n%s", s.output)
		}
	}
}

// cutShort interrupts runs of a setup at several moments, in order and as a crash
// does, and wants nothing left. remains looks at the machine before a run, and what
// it returns looks for what the run left there.
func cutShort(t *testing.T, setup string, remains func(*testing.T) func(*subject)) {
	signals := map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP}
	if setup == "compose" { // it is slow, and ends as containers do
		signals = map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM}
	}
	for name, sig := range signals {
		t.Run(name, func(t *testing.T) {
			leftBehind := remains(t)
			s := begin(t, setup, nil)
			s.at(stepping)
			s.signal(sig)
			s.exits(130)
			s.leftEvidence("interrupted", "interrupted by "+name, history, "brokers/b1/log")
			s.leftNothing()
			leftBehind(s)
		})
	}
	moments := map[string]func(*subject){
		"the owner is noted":   func(s *subject) { s.hasFile("owner") },
		"the cluster forms":    func(s *subject) { s.at(forming) },
		"a broker is made":     func(s *subject) { s.hasFile("brokers/b1") },
		"a broker says a word": func(s *subject) { s.hasFile("brokers/b1/log") },
		"a step is under way":  func(s *subject) { s.at(stepping) },
		"an image is built":    func(s *subject) { s.hasFile("images") },
		"a layer is there":     (*subject).hasLayer,
		"compose works":        func(s *subject) { s.hasFile("compose.yaml") },
	}
	switch setup {
	case "netns":
		delete(moments, "an image is built")
		delete(moments, "a layer is there")
		fallthrough
	case "container":
		delete(moments, "compose works")
	}
	for name, moment := range moments {
		t.Run("SIGKILL when "+name, func(t *testing.T) {
			leftBehind := remains(t)
			s := begin(t, setup, nil)
			moment(s)
			s.signal(syscall.SIGKILL)
			s.exits(-1)
			s.does(0, "cleaned", "clean", "last")
			s.leftEvidence("interrupted", "without finishing the run")
			s.leftNothing()
			leftBehind(s)
		})
	}
}

func onEngine(t *testing.T) func(*subject) {
	before := images(t)
	return func(s *subject) { s.leftOnEngine(before) }
}

func TestInterruptedContainers(t *testing.T) { cutShort(t, "container", onEngine) }

func TestInterruptedCompose(t *testing.T) { cutShort(t, "compose", onEngine) }

// Nothing may be found on an engine that was not asked.
func TestCleaningAsksTheEngineOfTheRun(t *testing.T) {
	s := begin(t, "container", nil)
	s.at(stepping)
	s.signal(syscall.SIGKILL)
	s.exits(-1)
	cmd := s.scenario("clean", "last")
	cmd.Env = append(cmd.Env, "DOCKER_HOST=tcp://127.0.0.1:1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "DOCKER_HOST") || !strings.Contains(string(out), "may still be there") {
		t.Errorf("cleaned on another engine: %v\n%s", err, out)
	}
	s.does(0, "cleaned", "clean", "last")
	s.leftNothing()
}
