package verb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

// builds are the two that a run upgrades between.
type builds struct{ first, next setups.Build }

type findOutputs struct {
	FirstVersion string `json:"first_version" doc:"version of the build that brokers are started with"`
	FirstPath    string `json:"first_path" doc:"its file"`
	FirstSHA256  string `json:"first_sha256" doc:"its SHA-256"`
	NextVersion  string `json:"next_version" doc:"version of the build to upgrade to"`
	NextPath     string `json:"next_path" doc:"its file"`
	NextSHA256   string `json:"next_sha256" doc:"its SHA-256"`
}

type orderOutputs struct {
	Names      []string `json:"names" doc:"names of the brokers, the controller last"`
	Controller string   `json:"controller" doc:"name of the controller"`
}

type versionsOutputs struct {
	Versions []string `json:"versions" doc:"the different versions that brokers report of themselves, sorted"`
	Vector   string   `json:"vector" doc:"the version that each broker reports of itself"`
	Brokers  int64    `json:"brokers" doc:"brokers asked"`
	First    int64    `json:"first" doc:"brokers that report the version of the first build"`
	Next     int64    `json:"next" doc:"brokers that report the version of the build to upgrade to"`
	Listed   int64    `json:"listed" doc:"brokers that the cluster lists with the version that they report"`
}

type upgradeInputs struct {
	Broker string        `json:"broker" required:"true" doc:"name of the broker"`
	Build  string        `json:"build" default:"next" enum:"next|first" doc:"next: upgrade; first: go back"`
	Grace  time.Duration `json:"grace" default:"20s" doc:"how long it may take to end in order"`
	Within time.Duration `json:"within" default:"60s" doc:"how long it may take until everything is in sync, before and after"`
}

type upgradeOutputs struct {
	From            string  `json:"from" doc:"version that the broker reported before"`
	To              string  `json:"to" doc:"version that it reports afterwards"`
	WasController   bool    `json:"was_controller" doc:"it was the controller when it was stopped"`
	Leaders         int64   `json:"leaders" doc:"partitions that it led when it was stopped"`
	ExitCode        int64   `json:"exit_code" doc:"how the old process ended"`
	DownMost        int64   `json:"down_most" doc:"most brokers that were seen down or fenced at a time"`
	DownMS          float64 `json:"down_ms" doc:"from the wish to stop until it was ready again"`
	InSyncMS        float64 `json:"in_sync_ms" doc:"from the start until it voted and everything was in sync"`
	Role            string  `json:"role" doc:"its place in the quorum afterwards"`
	UnderReplicated int64   `json:"under_replicated" doc:"partitions under-replicated afterwards"`
}

func init() {
	needs := []setups.Ability{setups.AbilityUpgrade}
	define(meta{
		name: "build.find", risk: spec.Additive, needs: needs,
		doc:     "Find the build that brokers start with and the one to upgrade to: --upgrade-bin, or the same source built with another version.",
		command: "go build -ldflags '-X main.version=NAME' -o ister-next ./cmd/ister",
		note:    "{first_version} and {next_version}",
	}, buildFind, nil)
	define(meta{
		name: "broker.upgrade", risk: spec.Disruptive, disturbs: true, needs: append(needs, setups.AbilityStop, setups.AbilityStart, setups.AbilityAdmin),
		doc: "Stop a broker in order, which hands what it leads and the controller role to others, start it with another build, and wait until it votes and everything is in sync. " +
			"It waits first until everything is in sync, so that one broker at a time is down.",
		command: "kill -TERM <pid of {broker}>; <its command, with the other binary>; ister admin cluster status",
		note:    "{from} to {to}, down {down_ms} ms, in sync after {in_sync_ms} ms",
	}, brokerUpgrade, nil)
	define(meta{
		name: "brokers.order", risk: spec.ReadOnly, needs: []setups.Ability{setups.AbilityAdmin},
		doc: "The brokers in the order in which to restart them: the controller last, so that it moves once.", command: "ister admin brokers leader-broker",
		note: "controller {controller}",
	}, brokersOrder, nil)
	define(meta{
		name: "brokers.versions", risk: spec.ReadOnly, needs: []setups.Ability{setups.AbilityAdmin},
		doc: "Ask every broker for its version, and compare with what the cluster lists.", command: "ister admin brokers list",
		note: "{vector}",
	}, brokersVersions, nil)
}

func buildFind(ctx context.Context, env *Env, _ none) (findOutputs, error) {
	builder, ok := setups.As[setups.Builder](env.Cluster)
	if !ok {
		return findOutputs{}, fmt.Errorf("this setup does not tell builds of the broker apart: use one of process, container, compose, netns")
	}
	first, next, err := builder.Builds(ctx, env.UpgradeBinary)
	if err != nil {
		return findOutputs{}, &EnvironmentError{fmt.Errorf("find two builds: %w", err)}
	}
	env.mu.Lock()
	env.builds = &builds{first, next}
	env.mu.Unlock()
	if env.Versions != nil {
		env.Versions["broker_version"] = first.Version
		env.Versions["upgrade"], env.Versions["upgrade_version"], env.Versions["upgrade_sha256"] = next.Path, next.Version, next.SHA256
	}
	return findOutputs{
		FirstVersion: first.Version, FirstPath: first.Path, FirstSHA256: first.SHA256,
		NextVersion: next.Version, NextPath: next.Path, NextSHA256: next.SHA256,
	}, nil
}

// found gives the builds of build.find.
func (e *Env) found() (builds, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.builds == nil {
		return builds{}, fmt.Errorf("the builds are not known: a step that uses build.find comes first")
	}
	return *e.builds, nil
}

func brokersOrder(ctx context.Context, env *Env, _ none) (orderOutputs, error) {
	now, err := status(ctx, env, none{})
	if err != nil {
		return orderOutputs{}, err
	}
	if now.Controller == 0 {
		return orderOutputs{}, fmt.Errorf("no broker is the controller now")
	}
	controller, err := env.brokerOf(ctx, now.Controller)
	if err != nil {
		return orderOutputs{}, err
	}
	out := orderOutputs{Controller: controller}
	for _, b := range env.Cluster.Brokers() {
		if b.Name != controller {
			out.Names = append(out.Names, b.Name)
		}
	}
	out.Names = append(out.Names, controller)
	return out, nil
}

// versionOf asks a broker for its own version.
func (e *Env) versionOf(ctx context.Context, name string) (string, error) {
	admin, err := e.AdminOf(name)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	info, err := admin.NodeInfo(ctx)
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", name, err)
	}
	return info.Version, nil
}

// listed finds a broker in the cluster's own list.
func (e *Env) listed(ctx context.Context, name string) (*adminv1.Broker, error) {
	id, err := e.nodeID(ctx, name)
	if err != nil {
		return nil, err
	}
	admin, err := e.Admin()
	if err != nil {
		return nil, err
	}
	answer, err := admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", err)
	}
	for _, b := range answer.GetBrokers() {
		if int64(b.GetBrokerId()) == id {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%s (node %d) is not in the list of brokers", name, id)
}

func brokersVersions(ctx context.Context, env *Env, _ none) (versionsOutputs, error) {
	known, err := env.found()
	if err != nil {
		return versionsOutputs{}, err
	}
	out := versionsOutputs{Versions: []string{}}
	var parts []string
	for _, b := range env.Cluster.Brokers() {
		version, err := env.versionOf(ctx, b.Name)
		if err != nil {
			return out, err
		}
		listed, err := env.listed(ctx, b.Name)
		if err != nil {
			return out, err
		}
		out.Brokers++
		parts = append(parts, b.Name+" "+version)
		if !slices.Contains(out.Versions, version) {
			out.Versions = append(out.Versions, version)
		}
		if version == known.first.Version {
			out.First++
		}
		if version == known.next.Version {
			out.Next++
		}
		if listed.GetVersion() == version {
			out.Listed++
		}
	}
	slices.Sort(out.Versions)
	out.Vector = strings.Join(parts, ", ")
	return out, nil
}

func brokerUpgrade(ctx context.Context, env *Env, in upgradeInputs) (upgradeOutputs, error) {
	var out upgradeOutputs
	known, err := env.found()
	if err != nil {
		return out, err
	}
	target := known.next
	if in.Build == "first" {
		target = known.first
	}
	upgrader, ok := setups.As[setups.Upgrader](env.Cluster)
	if !ok {
		return out, fmt.Errorf("this setup cannot start a broker with another binary: use one of process, container, compose, netns")
	}
	before, cancel := context.WithTimeout(ctx, in.Within)
	defer cancel()
	if err := inSync(before, env); err != nil {
		return out, fmt.Errorf("%s is not stopped while another broker is behind: %w", in.Broker, err)
	}
	if out.From, err = env.versionOf(ctx, in.Broker); err != nil {
		return out, err
	}
	holds, err := env.listed(ctx, in.Broker)
	if err != nil {
		return out, err
	}
	out.WasController, out.Leaders = holds.GetController(), int64(holds.GetLeaders())

	stopping := time.Now()
	exit, err := env.Cluster.Stop(ctx, in.Broker, in.Grace)
	out.ExitCode = int64(exit.Code)
	if err != nil {
		return out, err
	}
	out.look(ctx, env)
	if err := upgrader.Upgrade(ctx, in.Broker, target.Path); err != nil {
		return out, fmt.Errorf("give %s the build %s: %w", in.Broker, target.Path, err)
	}
	after, cancelAfter := context.WithTimeout(ctx, in.Within)
	defer cancelAfter()
	starting := time.Now()
	early, err := env.Cluster.Start(after, in.Broker)
	if err != nil {
		return out, err
	}
	if early != nil {
		return out, fmt.Errorf("%s ended with exit code %d when it was started as version %s: %s", in.Broker, early.Code, target.Version, env.lastLine(in.Broker))
	}
	if ready, says := env.ready(after, in.Broker); !ready {
		return out, fmt.Errorf("%s does not get ready as version %s: %s", in.Broker, target.Version, says)
	}
	out.DownMS = since(stopping)
	if err := out.settle(after, env, in.Broker); err != nil {
		return out, fmt.Errorf("after %s was started as version %s: %w", in.Broker, target.Version, err)
	}
	out.InSyncMS = since(starting)
	return out, nil
}

// look counts the brokers that are down now. A cluster that does not answer
// between two controllers tells nothing.
func (u *upgradeOutputs) look(ctx context.Context, env *Env) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if now, err := status(ctx, env, none{}); err == nil {
		u.DownMost = max(u.DownMost, int64(len(now.Brokers))-now.ActiveCount)
	}
}

// settle waits until the broker votes again and everything is in sync.
func (u *upgradeOutputs) settle(ctx context.Context, env *Env, name string) error {
	if err := poll(ctx, lookEvery, func() (bool, string, error) {
		now, err := status(ctx, env, none{})
		if err != nil {
			return false, err.Error(), nil
		}
		u.DownMost = max(u.DownMost, int64(len(now.Brokers))-now.ActiveCount)
		u.UnderReplicated = now.UnderReplicated
		return settled(now)
	}); err != nil {
		return err
	}
	is, err := env.listed(ctx, name)
	if err != nil {
		return err
	}
	u.Role = roleName(is.GetRole())
	u.To, err = env.versionOf(ctx, name)
	return err
}
