package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"github.com/ister-mq/ister/setups"
)

// Labels on everything that a run makes: its id, for people, and its owner's mark,
// since another runs directory on the same engine may hold the same id.
const (
	RunLabel   = "ister.run"
	OwnerLabel = "ister.owner"
)

// Run is whose something on the engine is.
type Run struct {
	Dir   string // absolute
	ID    string // its last element
	Owner string
}

// engineFile is the file in a run's directory that says on which engine the run is.
const engineFile = "engine"

// Begin connects a run with its engine, before the run makes anything there.
func Begin(ctx context.Context, dir string) (*Engine, Run, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, Run{}, fmt.Errorf("run directory: %w", err)
	}
	e, err := Connect(ctx)
	if err != nil {
		return nil, Run{}, err
	}
	owner, err := setups.Own(dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, engineFile), []byte(e.API.DaemonHost()+"\n"), 0o644)
	}
	if err != nil {
		e.Close()
		return nil, Run{}, fmt.Errorf("note the engine of a run: %w", err)
	}
	return e, Run{Dir: dir, ID: filepath.Base(dir), Owner: owner}, nil
}

// on checks that a run is on the engine at a host: on another one there is nothing
// of it, which would look as if all had been removed.
func (r Run) on(host string) error {
	path := filepath.Join(r.Dir, engineFile)
	data, err := os.ReadFile(path)
	at := strings.TrimSpace(string(data))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && at == "": // it was killed before it made anything
		return nil
	case err != nil:
		return fmt.Errorf("read the engine of a run: %w", err)
	case at != host:
		return fmt.Errorf("run %s is on the engine %s, and this is %s: set DOCKER_HOST=%s; where that engine is gone with all it had, remove %s", r.ID, at, host, at, path)
	}
	return nil
}

// Name is the name of something of the run, which nothing of another run has.
func (r Run) Name(what string) string { return "ister-" + r.ID + "-" + r.Owner + "-" + what }

// Labels are those of something of the run.
func (r Run) Labels() map[string]string {
	return map[string]string{RunLabel: r.ID, OwnerLabel: r.Owner}
}

// filter finds what has the labels, all of them.
func (r Run) filter() client.Filters {
	return make(client.Filters).Add("label", RunLabel+"="+r.ID, OwnerLabel+"="+r.Owner)
}
