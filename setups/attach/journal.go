package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ister-mq/ister/setups"
)

// journalName is the file of a run's directory with what the run made on the
// cluster.
const journalName = "attach.json"

func journalPath(dir string) string { return filepath.Join(dir, journalName) }

// journal is what has to be known to take back what a run made, also when its
// runner is gone. It is saved before a thing is made.
type journal struct {
	Admin     []string  `json:"admin"`     // of the members that were there
	Bootstrap []string  `json:"bootstrap"` // for Kafka clients
	Command   string    `json:"broker_command,omitempty"`
	Topics    []*topic  `json:"topics"`
	Joined    []*joined `json:"joined"`

	path string // "": kept in memory alone
}

type topic struct {
	Name  string            `json:"name"`
	State setups.TopicState `json:"state"`
}

// joined is a broker that the run added or may have added.
type joined struct {
	Name        string `json:"name"`
	Admin       string `json:"admin"` // "" until it is known
	Incarnation string `json:"incarnation"`
	// Commanded: the command started it, and has to end it.
	Commanded bool `json:"commanded"`
	Running   bool `json:"running"`
}

// save writes the journal whole, or not at all.
func (j *journal) save() error {
	if j.path == "" {
		return nil
	}
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("write what the run made: %w", err)
	}
	next := j.path + ".next"
	if err := os.WriteFile(next, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write what the run made: %w", err)
	}
	if err := os.Rename(next, j.path); err != nil {
		return fmt.Errorf("write what the run made: %w", err)
	}
	return nil
}

// loadJournal reads the journal of the run in dir; nil when it has none.
func loadJournal(dir string) (*journal, error) {
	data, err := os.ReadFile(journalPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the run made: %w", err)
	}
	j := &journal{path: journalPath(dir)}
	if err := json.Unmarshal(data, j); err != nil {
		return nil, fmt.Errorf("read what the run made: %s: %w", j.path, err)
	}
	return j, nil
}

// note keeps what is known of a topic.
func (j *journal) note(name string, state setups.TopicState) error {
	for i, t := range j.Topics {
		if t.Name != name {
			continue
		}
		if t.State = state; state == setups.TopicNotMade {
			j.Topics = append(j.Topics[:i], j.Topics[i+1:]...)
		}
		return j.save()
	}
	if state != setups.TopicNotMade {
		j.Topics = append(j.Topics, &topic{name, state})
	}
	return j.save()
}

// broker is the entry of a broker that joined, or nil.
func (j *journal) broker(name string) *joined {
	for _, b := range j.Joined {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// running notes whether a broker that joined runs; of others nothing is noted.
func (j *journal) running(name string, runs bool) error {
	b := j.broker(name)
	if b == nil {
		return nil
	}
	b.Running = runs
	return j.save()
}
