package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	testcontainers "github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/ister-mq/ister/setups"
)

// minAPI is the oldest API this is tested with, that of Docker Engine 20.10.
const minAPI = "1.41"

// pingTimeout bounds the question whether there is an engine.
const pingTimeout = 5 * time.Second

// Engine is a connected Docker engine.
type Engine struct {
	Provider *testcontainers.DockerProvider
	API      client.APIClient
	// Host is where published ports are reached from here, and Bind the address
	// they are published on.
	Host string
	Bind netip.Addr
	// Arch is the engine's architecture as Go names it.
	Arch string
}

// quiet turns the reaper off before testcontainers reads its settings, once for
// the process, and keeps its log lines out of the terminal.
var quiet = sync.OnceFunc(func() {
	if os.Getenv("TESTCONTAINERS_RYUK_DISABLED") == "" {
		os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	}
	tclog.SetDefault(tclog.NewNoopLogger())
})

// Connect finds the engine the way testcontainers does (DOCKER_HOST, the docker
// context, well-known sockets).
func Connect(ctx context.Context) (*Engine, error) {
	quiet()
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	wanted := os.Getenv("DOCKER_HOST")
	if wanted != "" {
		if err := answers(ctx); err != nil { // testcontainers would take another engine
			return nil, noEngine(fmt.Errorf("the engine of DOCKER_HOST=%s: %w", wanted, err))
		}
	}
	// NewDockerProvider takes no context: an engine that hangs must not hold us.
	type result struct {
		provider *testcontainers.DockerProvider
		err      error
	}
	found := make(chan result, 1)
	go func() {
		p, err := testcontainers.NewDockerProvider()
		found <- result{p, err}
	}()
	var provider *testcontainers.DockerProvider
	select {
	case <-ctx.Done():
		return nil, noEngine(fmt.Errorf("connect to docker: no answer within %s", pingTimeout))
	case r := <-found:
		if r.err != nil {
			return nil, noEngine(fmt.Errorf("connect to docker: %w", r.err))
		}
		provider = r.provider
	}
	e := &Engine{Provider: provider, API: provider.Client()}
	if at := e.API.DaemonHost(); wanted != "" && at != wanted {
		e.Close()
		return nil, noEngine(fmt.Errorf("DOCKER_HOST=%s, but ~/.testcontainers.properties names the engine %s", wanted, at))
	}
	version, err := e.API.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return nil, noEngine(fmt.Errorf("ask docker for its version: %w", err))
	}
	if older(version.APIVersion, minAPI) {
		return nil, noEngine(fmt.Errorf("docker engine %s speaks API %s, needed is %s (Docker Engine 20.10) or newer", version.Version, version.APIVersion, minAPI))
	}
	if version.Os != "linux" {
		return nil, noEngine(fmt.Errorf("docker runs %s containers, needed are linux ones", version.Os))
	}
	e.Arch = version.Arch
	e.Host, e.Bind = publishedAt(os.Getenv("TESTCONTAINERS_HOST_OVERRIDE"), e.API.DaemonHost())
	return e, nil
}

// answers asks the engine that DOCKER_HOST names.
func answers(ctx context.Context) error {
	c, err := client.New(client.FromEnv)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Ping(ctx, client.PingOptions{})
	return err
}

// unusable is why there is no engine, and what to do.
type unusable struct{ why, remedy string }

func (u *unusable) Error() string { return u.why + "; " + u.remedy }

func noEngine(err error) *unusable {
	u := &unusable{why: strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")}
	switch {
	case strings.Contains(u.why, "permission denied"):
		u.remedy = "let this user use the engine's socket (`sudo usermod -aG docker $USER`, and log in again), or run it as root"
	case os.Getenv("DOCKER_HOST") != "":
		u.remedy = "start that engine, or correct or unset DOCKER_HOST"
	default:
		u.remedy = "install Docker Engine 20.10 or newer (Debian: apt-get install docker.io) and start it, or set DOCKER_HOST"
	}
	return u
}

// Close ends the connection.
func (e *Engine) Close() { _ = e.API.Close() }

// publishedAt is where published ports are. An engine behind a local socket
// publishes on this machine, also when this process itself is in a container
// that shares the engine's network; TESTCONTAINERS_HOST_OVERRIDE says otherwise.
func publishedAt(override, daemon string) (host string, bind netip.Addr) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	host = override
	if host == "" {
		if u, err := url.Parse(daemon); err == nil && (u.Scheme == "tcp" || u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "ssh") {
			host = u.Hostname()
		}
	}
	switch host {
	case "", "localhost", "127.0.0.1":
		return "127.0.0.1", loopback
	}
	return host, netip.IPv4Unspecified()
}

func older(have, want string) bool {
	a, b := parts(have), parts(want)
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}

func parts(version string) (out [2]int) {
	major, minor, _ := strings.Cut(version, ".")
	out[0], _ = strconv.Atoi(major)
	out[1], _ = strconv.Atoi(minor)
	return out
}

// Check says whether there is an engine that can be used, and a binary for it.
func Check(ctx context.Context) []setups.Finding {
	engine := setups.Finding{Code: "DOCKER_ENGINE", OK: true}
	e, err := Connect(ctx)
	if err != nil {
		u := noEngine(err)
		errors.As(err, &u)
		engine.OK, engine.Fatal, engine.Message, engine.Remedy = false, true, u.why, u.remedy
		return []setups.Finding{engine}
	}
	defer e.Close()
	engine.Message = "linux/" + e.Arch + " at " + e.API.DaemonHost() + ", published ports are dialled at " + e.Host
	ports := setups.Finding{Code: "FREE_PORTS", OK: true, Message: "ports for publishing are free"}
	if _, err := setups.FreePorts(16); err != nil {
		ports = setups.Finding{Code: "FREE_PORTS", Fatal: true, Message: err.Error(), Remedy: "end what listens on those ports"}
	}
	return []setups.Finding{engine, ports, Binaries("", setups.Options{}, e.Arch).Check()}
}
