package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is three broker processes that this program owns.
type cluster struct {
	dir   string
	keep  bool
	nodes []*process
}

type process struct {
	cmd                *exec.Cmd
	args               []string
	log                *os.File
	kafka, admin, raft string
}

const startBound = 60 * time.Second

func start(ctx context.Context, binary string, keep bool) (*cluster, error) {
	dir, err := os.MkdirTemp("", "ister-bench-")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, keep: keep}
	if binary == "" {
		binary = filepath.Join(dir, "ister")
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/ister")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the broker: %w\n%s", err, out)
		}
	}
	ports, err := freePorts(9)
	if err != nil {
		return nil, err
	}
	var seeds []string
	for i := 0; i < 3; i++ {
		seeds = append(seeds, ports[6+i])
	}
	for i := 0; i < 3; i++ {
		n := &process{kafka: ports[i], admin: ports[3+i], raft: ports[6+i]}
		n.args = []string{binary, "broker", "--data-dir", filepath.Join(dir, fmt.Sprintf("b%d", i+1)),
			"--broker-addr", n.kafka, "--admin-addr", n.admin, "--raft-addr", n.raft,
			"--prom-exporter", "", "--seed-nodes", strings.Join(seeds, ",")}
		if n.log, err = os.Create(filepath.Join(dir, fmt.Sprintf("b%d.log", i+1))); err != nil {
			return c, err
		}
		if err := n.start(); err != nil {
			c.stop()
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		if err := n.waitReady(ctx); err != nil {
			c.keep = true
			c.stop()
			return nil, err
		}
	}
	return c, nil
}

func freePorts(n int) ([]string, error) {
	var out []string
	for i := 0; i < n; i++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}

func (n *process) start() error {
	n.cmd = exec.Command(n.args[0], n.args[1:]...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return n.cmd.Start()
}

func (n *process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get("http://" + n.admin + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("broker at %s was not ready within %s; see %s", n.admin, startBound, n.log.Name())
		case <-tick.C:
		}
	}
}

func (n *process) kill() error {
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_, err := n.cmd.Process.Wait()
	return err
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		if err := n.kill(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: stop broker:", err)
		}
	}
	if c.keep {
		fmt.Fprintln(os.Stderr, "kept", c.dir)
		return
	}
	if err := os.RemoveAll(c.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench: remove data:", err)
	}
}

func (c *cluster) seeds() []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.kafka)
	}
	return out
}

func (c *cluster) admins() []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.admin)
	}
	return out
}

// createTopic makes a reliable topic and waits until every broker knows a leader
// of each partition.
func (c *cluster) createTopic(ctx context.Context, name string, partitions int32) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, partitions, -1, nil, name); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	for _, broker := range cl.SeedBrokers() {
		for !knowsLeaders(ctx, broker, name, partitions) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("topic %s: %w", name, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// knowsLeaders reports whether this broker names a leader of every partition.
func knowsLeaders(ctx context.Context, broker *kgo.Broker, topic string, partitions int32) bool {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := broker.Request(ctx, req)
	if err != nil {
		return false
	}
	got := resp.(*kmsg.MetadataResponse)
	if len(got.Topics) != 1 || int32(len(got.Topics[0].Partitions)) != partitions {
		return false
	}
	for _, p := range got.Topics[0].Partitions {
		if p.Leader < 0 || p.ErrorCode != 0 {
			return false
		}
	}
	return true
}

// cpu is the processor time that all brokers used so far.
func (c *cluster) cpu() time.Duration {
	var sum time.Duration
	for _, n := range c.nodes {
		sum += processCPU(n.cmd.Process.Pid)
	}
	return sum
}

// processCPU reads user plus system time of a process; fields 14 and 15 of
// /proc/PID/stat, in clock ticks of 10 ms.
func processCPU(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		t, _ := strconv.ParseInt(f, 10, 64)
		ticks += t
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
