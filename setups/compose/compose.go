// Package compose runs a cluster from compose.yaml, a file that people can keep
// and run by hand: three brokers, and more that wait to be added.
//
// docker-compose (1.28 or newer) or docker compose (v2), whichever is there,
// makes and removes what the file says; brokers are then started, stopped,
// killed and frozen one by one on the Docker engine.
package compose

import (
	"context"
	_ "embed" // the compose file
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/moby/moby/client"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/internal/build"
	"github.com/ister-mq/ister/setups/internal/docker"
)

//go:embed compose.yaml
var file []byte

// Brokers of the file: those that form the cluster, and all.
const (
	formed = 3
	most   = 6
)

// Setup implements setups.Setup.
type Setup struct{}

// Name implements setups.Setup.
func (Setup) Name() string { return "compose" }

// Check implements setups.Setup.
func (Setup) Check(ctx context.Context) []setups.Finding {
	f := setups.Finding{Code: "COMPOSE", OK: true}
	command, version, err := find(ctx)
	if err != nil {
		f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), getCompose
	} else {
		f.Message = strings.Join(command, " ") + " " + version
	}
	return append([]setups.Finding{f}, docker.Check(ctx)...)
}

// getCompose is how to get it.
const getCompose = "install one (Debian: apt-get install docker-compose)"

// find looks for either kind of compose.
func find(ctx context.Context) (command []string, version string, err error) {
	for _, command := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		args := append(command[1:len(command):len(command)], "version", "--short")
		if out, err := exec.CommandContext(ctx, command[0], args...).Output(); err == nil {
			return command, strings.TrimSpace(string(out)), nil
		}
	}
	return nil, "", errors.New("neither docker compose nor docker-compose is installed")
}

// New implements setups.Setup.
func (Setup) New(ctx context.Context, options setups.Options) (setups.Cluster, error) {
	if options.Say == nil {
		options.Say = func(string) {}
	}
	command, _, err := find(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, getCompose)
	}
	engine, run, err := docker.Begin(ctx, options.Dir)
	if err != nil {
		return nil, err
	}
	binaries := docker.Binaries("compose", options, engine.Arch)
	path, digest, err := binaries.Find(ctx, options.Binary)
	if err != nil {
		engine.Close()
		return nil, err
	}
	return &cluster{Fleet: docker.Fleet{Run: run, Binaries: binaries, Path: path, Digest: digest}, engine: engine, command: command, project: projectOf(run), ledger: binaries.Ledger}, nil
}

// projectOf makes a project name, for which compose has rules, of a run.
func projectOf(run docker.Run) string {
	return "ister-" + regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(strings.ToLower(run.ID), "-") + "-" + run.Owner
}

// Clean implements setups.Cleaner.
func (Setup) Clean(ctx context.Context, dir string) (leftovers []string, err error) {
	return docker.CleanRun(ctx, dir)
}

type cluster struct {
	docker.Fleet
	engine   *docker.Engine
	command  []string
	project  string
	ledger   build.Ledger
	settings []string // environment of compose
	upgraded bool     // overrideFile is there
	ports    [most][3]int
}

var (
	_ setups.Cleaner = Setup{}
	_ setups.Cluster = (*cluster)(nil)
	_ setups.Faults  = (*cluster)(nil)
	_ setups.Inner   = (*cluster)(nil)

	_ setups.Upgrader = (*cluster)(nil)
	_ setups.Builder  = (*cluster)(nil)
)

// InnerAdmin implements setups.Inner.
func (c *cluster) InnerAdmin(name string) string { return name + ".cluster:50051" }

func (c *cluster) Form(ctx context.Context, n int) ([]setups.Broker, error) {
	if n != formed {
		return nil, &setups.Refused{Setup: "compose", What: fmt.Sprintf("form a cluster of %d", n), Why: fmt.Sprintf("compose.yaml has %d brokers that form one", formed), Remedy: "use the setup container"}
	}
	if err := c.configure(ctx); err != nil {
		return nil, err
	}
	members := make([]*docker.Member, formed)
	for i := range formed {
		m, err := c.enter(i)
		if err != nil {
			return nil, err
		}
		members[i] = m
	}
	if err := c.up(ctx, members...); err != nil {
		return nil, err
	}
	if err := c.AwaitAll(ctx, members, "/readyz"); err != nil {
		return nil, err
	}
	return c.Brokers(), nil
}

func (c *cluster) Add(ctx context.Context) (setups.Broker, error) {
	i := c.Size()
	if i >= most {
		return setups.Broker{}, &setups.Refused{Setup: "compose", What: fmt.Sprintf("add broker %d", i+1), Why: fmt.Sprintf("compose.yaml has %d", most), Remedy: "use the setup container"}
	}
	m, err := c.enter(i)
	if err != nil {
		return setups.Broker{}, err
	}
	if err := c.up(ctx, m); err != nil {
		return setups.Broker{}, err
	}
	if err := c.Await(ctx, m, "/healthz"); err != nil {
		return setups.Broker{}, err
	}
	started := m.Broker
	started.Running = true
	return started, nil
}

// configure writes the compose file and its settings into the run's directory,
// from where a person can use them as well.
func (c *cluster) configure(ctx context.Context) error {
	image, err := c.engine.EnsureImage(ctx, c.Run, c.Path, c.Digest)
	if err != nil {
		return err
	}
	ports, err := setups.FreePorts(3 * most)
	if err != nil {
		return err
	}
	c.settings = []string{"COMPOSE_PROJECT_NAME=" + c.project, "ISTER_IMAGE=" + image, "ISTER_RUN=" + c.Run.ID, "ISTER_OWNER=" + c.Run.Owner, "ISTER_HOST=" + c.engine.Host, "ISTER_BIND=" + c.engine.Bind.String(),
		"DOCKER_HOST=" + c.engine.API.DaemonHost()} // compose looks for an engine in other places
	for i := range most {
		c.ports[i] = [3]int(ports[3*i : 3*i+3])
		for j, what := range []string{"KAFKA", "ADMIN", "METRICS"} {
			c.settings = append(c.settings, fmt.Sprintf("ISTER_B%d_%s=%d", i+1, what, c.ports[i][j]))
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(c.Run.Dir, "compose.yaml"), file, 0o644),
		os.WriteFile(filepath.Join(c.Run.Dir, ".env"), []byte(strings.Join(c.settings, "\n")+"\n"), 0o644))
}

// compose runs a command of docker-compose or docker compose. Settings are given
// as environment, which both take, and win over the caller's.
func (c *cluster) compose(ctx context.Context, args ...string) error {
	all := append(c.command[1:len(c.command):len(c.command)], "-f", filepath.Join(c.Run.Dir, "compose.yaml"))
	if c.upgraded {
		all = append(all, "-f", filepath.Join(c.Run.Dir, overrideFile))
	}
	all = append(all, "--project-directory", c.Run.Dir, "--profile", "scale", "--profile", "more")
	cmd := exec.CommandContext(ctx, c.command[0], append(all, args...)...)
	cmd.Dir, cmd.Env = c.Run.Dir, append(os.Environ(), c.settings...)
	// In the ledger: one whose runner was killed goes on making containers, so that
	// a clean has to end it before it looks for them.
	if out, err := build.Run(c.ledger, "compose", cmd); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", strings.Join(c.command, " "), strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Start implements setups.Cluster. A broker that was given another binary gets a
// container of its image from compose, on the same volume.
func (c *cluster) Start(ctx context.Context, name string) (*setups.Exit, error) {
	m, err := c.Find(name)
	if err != nil {
		return nil, err
	}
	if !m.Stale() {
		return c.Fleet.Start(ctx, name)
	}
	if _, err := c.engine.EnsureImage(ctx, c.Run, m.Path, m.Digest); err != nil {
		return nil, err
	}
	if err := c.override(); err != nil {
		return nil, err
	}
	// docker-compose 1.29 cannot make a container anew with a recent engine, whose
	// images have no ContainerConfig: the old one goes first.
	if err := c.engine.RemoveContainer(ctx, m.Box.ID()); err != nil {
		return nil, fmt.Errorf("remove the container of %s: %w", name, err)
	}
	if err := c.up(ctx, m); err != nil {
		return nil, err
	}
	if m.Cut { // a cut lasts over an upgrade
		m.Cut = false
		if err := c.engine.CutOff(ctx, m, c.network()); err != nil {
			return nil, err
		}
	}
	return c.Answers(ctx, m)
}

// overrideFile says which brokers have another image than the rest. Both kinds of
// compose read it by themselves, beside compose.yaml.
const overrideFile = "compose.override.yaml"

// override gives every broker the image that it is to start with.
func (c *cluster) override() error {
	text := "# The images after an upgrade.\nversion: \"3.9\"\nservices:\n"
	for _, b := range c.Brokers() {
		m, err := c.Find(b.Name)
		if err != nil {
			continue // not started yet
		}
		text += fmt.Sprintf("  %s: {image: %q}\n", b.Name, docker.ImageName(m.Digest))
	}
	if err := os.WriteFile(filepath.Join(c.Run.Dir, overrideFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the images of upgraded brokers: %w", err)
	}
	c.upgraded = true
	return nil
}

// up has compose make and start brokers: docker-compose 1.29 connects a container
// to its second network at the start only.
func (c *cluster) up(ctx context.Context, members ...*docker.Member) error {
	args := []string{"up", "-d", "--no-recreate"}
	for _, m := range members {
		args = append(args, m.Name)
	}
	err := c.compose(ctx, args...)
	for _, m := range members { // also of those that were made before a failure
		err = errors.Join(err, c.adopt(ctx, m))
	}
	return err
}

// enter adds the broker with an index.
func (c *cluster) enter(i int) (*docker.Member, error) {
	name := fmt.Sprintf("b%d", i+1)
	at := func(port int) string { return c.engine.Host + ":" + strconv.Itoa(port) }
	m := &docker.Member{Broker: setups.Broker{
		Name: name, Kafka: at(c.ports[i][0]), Admin: at(c.ports[i][1]), Metrics: at(c.ports[i][2]),
		Raft: name + ".cluster:7650", LogFile: filepath.Join("brokers", name, "log"),
	}}
	return m, c.Enter(m)
}

// adopt finds the container that compose made for a broker.
func (c *cluster) adopt(ctx context.Context, m *docker.Member) error {
	list, err := c.engine.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).
		Add("label", "com.docker.compose.project="+c.project, "com.docker.compose.service="+m.Name)})
	if err != nil {
		return fmt.Errorf("find the container of %s: %w", m.Name, err)
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("compose made %d containers of %s, want 1", len(list.Items), m.Name)
	}
	if err := docker.Record(c.Run.Dir, m.Broker, docker.ImageName(m.Digest), m.Digest, strings.Fields(list.Items[0].Command)); err != nil {
		return err
	}
	box := c.engine.NewBox(list.Items[0].ID, m.Name, filepath.Join(c.Run.Dir, m.LogFile))
	if err := box.Adopt(ctx); err != nil {
		return err
	}
	return c.Started(ctx, m, box)
}

// Close stops the brokers in order, has compose take down what it made, and
// removes what carries the run's labels all the same.
func (c *cluster) Close(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), docker.CloseTimeout)
	defer cancel()
	if !c.End(ctx) {
		return nil
	}
	defer c.engine.Close()
	var errs []error
	if c.settings != nil {
		errs = append(errs, c.compose(ctx, "down", "--volumes", "--remove-orphans"))
	}
	left, err := c.engine.Clean(ctx, c.Run)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		left = append(left, err.Error())
	}
	return left
}

// network is the name that compose gave the cluster network.
func (c *cluster) network() string { return c.project + "_cluster" }

// Cannot implements setups.Limited: the engine can take a broker's network away,
// and compose gives a broker another image.
func (Setup) Cannot(ability setups.Ability) *setups.Refused {
	switch ability {
	case setups.AbilityUpgrade, setups.AbilityMistake, setups.AbilityCutOff:
		return nil
	}
	return setups.StartsBrokers("compose", ability)
}

// Mistake implements setups.Mistaker.
func (c *cluster) Mistake(ctx context.Context, name string, mistake setups.Mistake) (setups.Mistaken, error) {
	return c.Fleet.Mistake(ctx, c.network(), name, mistake)
}

// Can implements setups.Faults.
func (c *cluster) Can() []setups.Fault { return []setups.Fault{setups.FaultCutOff} }

// CutOff implements setups.Faults.
func (c *cluster) CutOff(ctx context.Context, name string) error {
	m, err := c.Find(name)
	if err != nil {
		return err
	}
	return c.engine.CutOff(ctx, m, c.network())
}

// Heal implements setups.Faults.
func (c *cluster) Heal(ctx context.Context, name string) error {
	m, err := c.Find(name)
	if err != nil {
		return err
	}
	return c.engine.Heal(ctx, m, c.network(), name, name+".cluster")
}

// Slow implements setups.Faults.
func (c *cluster) Slow(_ context.Context, name string, _ setups.Link) error {
	return c.refuse("slow " + name + " down")
}

// FillDisk implements setups.Faults.
func (c *cluster) FillDisk(_ context.Context, name string, _ int64) error {
	return c.refuse("fill the disk of " + name)
}

// FreeDisk implements setups.Faults.
func (c *cluster) FreeDisk(_ context.Context, name string) error {
	return c.refuse("free the disk of " + name)
}

func (c *cluster) refuse(what string) error {
	return &setups.Refused{Setup: "compose", What: what, Why: "compose.yaml describes a plain cluster", Remedy: "use the setup container"}
}
