//go:build containers

package setuptest_test

import (
	"path/filepath"
	"syscall"
	"testing"
)

// leftOnEngine wants nothing of a run on the engine.
func (s *subject) leftOnEngine() {
	s.Helper()
	if rest := left(s.T, filepath.Base(s.dir)); len(rest) > 0 {
		s.Errorf("on the engine: %v", rest)
	}
}

func TestInterruptedContainers(t *testing.T) {
	for _, setup := range []string{"container", "compose"} {
		t.Run(setup+" SIGTERM", func(t *testing.T) {
			s := begin(t, setup, nil)
			s.at(stepping)
			s.signal(syscall.SIGTERM)
			s.exits(130)
			s.leftEvidence("interrupted", "interrupted by SIGTERM", history, "brokers/b1/log")
			s.leftNothing()
			s.leftOnEngine()
		})
		for name, moment := range map[string]string{"forming": forming, "step": stepping} {
			t.Run(setup+" SIGKILL "+name, func(t *testing.T) {
				s := begin(t, setup, nil)
				s.at(moment)
				s.signal(syscall.SIGKILL)
				s.exits(-1)
				s.does(0, "cleaned", "clean", "last")
				s.leftEvidence("interrupted", "without finishing the run", history)
				s.leftNothing()
				s.leftOnEngine()
			})
		}
	}
}
