package attach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The executable of Setup.Command is called as
//
//	CMD add|start|stop|kill|pause|resume NAME
//
// in the run's directory, with these variables beside the environment:
//
//	SCENARIO_RUN_ID, SCENARIO_RUN_DIR   the run
//	SCENARIO_BROKER                     NAME again
//	SCENARIO_BROKER_ADMIN, _KAFKA       its addresses, where they are known
//	SCENARIO_ADMIN, SCENARIO_BOOTSTRAP  those of the cluster, separated by commas
//	SCENARIO_ISTER_BIN                  the binary that --ister-bin gives, if it does
//	SCENARIO_GRACE_SECONDS              how long a stop may take before it is a kill
//
// It ends with status 0 when it has done what was asked. What it writes to
// standard output is an answer; what it writes to standard error is for people.
// Both are kept in the run's directory.
const (
	commandMax  = time.Minute // bounds one call
	answerMax   = 64 << 10    // bytes of an answer
	commandsDir = "broker-command"
	// downWithin bounds how long a broker that was ended may still answer.
	downWithin = 5 * time.Second
)

// answer is what the command writes to standard output: one JSON object. Of
// `add` the admin address is required; all else may be left out, and no output
// at all is an empty object.
type answer struct {
	Admin string `json:"admin"` // host:port of the broker's admin API
	Log   string `json:"log"`   // absolute path of the broker's log
	// ExitCode is of a broker that ended by itself (`start`), or was ended (`stop`).
	ExitCode *int `json:"exit_code"`
}

// CheckCommand says what keeps a file from being called.
func CheckCommand(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("broker command: expected an executable file, observed: %w", err)
	case info.IsDir():
		return fmt.Errorf("broker command: expected an executable file, observed: %s is a directory", path)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("broker command: expected an executable file, observed: %s has mode %s; make it one with chmod +x", path, info.Mode().Perm())
	}
	return nil
}

// call calls the command and returns its answer. The error tells what was
// expected and what was observed.
func (c *cluster) call(ctx context.Context, verb, name string, more ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, commandMax)
	defer cancel()
	stdout, stderr, err := c.callFiles(verb, name)
	if err != nil {
		return answer{}, err
	}
	defer stdout.Close()
	defer stderr.Close()
	cmd := exec.CommandContext(ctx, c.setup.Command, verb, name)
	// Files, not pipes: a broker that the command leaves running may keep them.
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.options.Dir, stdout, stderr
	cmd.Env = append(os.Environ(), append(c.variables(name), more...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	began := time.Now()
	err = cmd.Run()
	failed := func(observed string) error {
		return &CommandError{Verb: verb, Broker: name, Expected: expected(verb), Observed: observed, Evidence: stderr.Name()}
	}
	switch {
	case ctx.Err() != nil:
		return answer{}, failed(fmt.Sprintf("no end after %.0f s (it was killed)", time.Since(began).Seconds()))
	case err != nil && cmd.ProcessState == nil:
		return answer{}, failed(err.Error())
	case err != nil:
		return answer{}, failed(fmt.Sprintf("%v%s", err, lastLine(stderr.Name())))
	}
	out, err := readAnswer(stdout.Name())
	if err == nil && verb == "add" && out.Admin == "" {
		err = errors.New("an answer without admin")
	}
	if err == nil && out.Admin != "" {
		err = checkAddress(out.Admin)
	}
	if err != nil {
		return answer{}, failed(err.Error())
	}
	return out, nil
}

// CommandError is a call of the broker command that did not do its part.
type CommandError struct {
	Verb, Broker       string
	Expected, Observed string
	Evidence           string // a file
}

// Error implements error.
func (e *CommandError) Error() string {
	return fmt.Sprintf("broker command, %s %s: expected %s, observed %s; what it wrote: %s", e.Verb, e.Broker, e.Expected, e.Observed, e.Evidence)
}

func expected(verb string) string {
	switch verb {
	case "add":
		return `exit status 0 and {"admin": "HOST:PORT"} on standard output`
	case "start":
		return `exit status 0 and {} or {"exit_code": N} on standard output`
	}
	return "exit status 0"
}

// callFiles makes the files for what one call writes, numbered in order.
func (c *cluster) callFiles(verb, name string) (stdout, stderr *os.File, err error) {
	dir := filepath.Join(c.options.Dir, commandsDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("keep what the broker command writes: %w", err)
	}
	taken, err := filepath.Glob(filepath.Join(dir, "*.out"))
	if err != nil {
		return nil, nil, fmt.Errorf("keep what the broker command writes: %w", err)
	}
	base := filepath.Join(dir, fmt.Sprintf("%02d-%s-%s", len(taken)+1, verb, name))
	if stdout, err = os.Create(base + ".out"); err != nil {
		return nil, nil, fmt.Errorf("keep what the broker command writes: %w", err)
	}
	if stderr, err = os.Create(base + ".err"); err != nil {
		stdout.Close()
		return nil, nil, fmt.Errorf("keep what the broker command writes: %w", err)
	}
	return stdout, stderr, nil
}

// variables are what the command is told by its environment.
func (c *cluster) variables(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	variables := []string{
		"SCENARIO_RUN_ID=" + filepath.Base(c.options.Dir), "SCENARIO_RUN_DIR=" + c.options.Dir, "SCENARIO_BROKER=" + name,
		"SCENARIO_ADMIN=" + strings.Join(c.journal.Admin, ","), "SCENARIO_BOOTSTRAP=" + strings.Join(c.journal.Bootstrap, ","),
	}
	if c.options.Binary != "" {
		binary, err := filepath.Abs(c.options.Binary) // the command runs in another directory
		if err != nil {
			binary = c.options.Binary
		}
		variables = append(variables, "SCENARIO_ISTER_BIN="+binary)
	}
	for _, b := range c.brokers {
		if b.Name == name {
			variables = append(variables, "SCENARIO_BROKER_ADMIN="+b.Admin, "SCENARIO_BROKER_KAFKA="+b.Kafka)
		}
	}
	return variables
}

// graceVariable tells how long a stop may take.
func graceVariable(grace time.Duration) string {
	return "SCENARIO_GRACE_SECONDS=" + strconv.Itoa(max(1, int(min(grace, commandMax/2).Seconds())))
}

// readAnswer reads one JSON object, and refuses anything else.
func readAnswer(path string) (answer, error) {
	file, err := os.Open(path)
	if err != nil {
		return answer{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, answerMax+1))
	if err != nil {
		return answer{}, err
	}
	if len(data) > answerMax {
		return answer{}, fmt.Errorf("more than %d bytes", answerMax)
	}
	var out answer
	if len(bytes.TrimSpace(data)) == 0 {
		return out, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		return answer{}, fmt.Errorf("%q, which is no such answer: %w", excerpt(data), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return answer{}, fmt.Errorf("%q, which is more than one answer", excerpt(data))
	}
	return out, nil
}

func excerpt(data []byte) string {
	text := strings.TrimSpace(string(data))
	return text[:min(len(text), 80)]
}

// lastLine is ": " and the last line of a file, or nothing.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if err != nil || last == "" {
		return ""
	}
	return ": " + last[:min(len(last), 300)]
}
