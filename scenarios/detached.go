package scenarios

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
)

// announceFD is where a supervisor tells the run's directory, once.
const announceFD = 3

// notForSupervisor are flags of `run` that are about the command that was typed.
var notForSupervisor = map[string]bool{"detach": true, "progress": true, "output": true, "supervisor": true, "quiet": true}

// supervise starts a supervisor: this command again, in a session of its own, so
// that the run and its brokers outlive the shell. It returns once the run has a
// directory, with the directory and the supervisor's process id.
func (c *common) supervise(cmd *cobra.Command, args []string) (dir string, pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, fmt.Errorf("find this executable: %w", err)
	}
	logs := filepath.Join(c.runsDir, run.LogsName)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return "", 0, fmt.Errorf("make the folder of the supervisor's log: %w; %s", err, run.RunsDirHint)
	}
	log, err := os.CreateTemp(logs, "starting-*.log")
	if err != nil {
		return "", 0, fmt.Errorf("make the supervisor's log: %w; %s", err, run.RunsDirHint)
	}
	defer log.Close()
	heard, tell, err := os.Pipe()
	if err != nil {
		return "", 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer heard.Close()
	words := append(wordsOf(cmd, os.Args), flagsOf(cmd)...)
	words = append(words, "--supervisor", "--progress", "plain", "--no-color", "--")
	supervisor := exec.Command(self, append(words, args...)...)
	supervisor.Stdout, supervisor.Stderr, supervisor.ExtraFiles = log, log, []*os.File{tell}
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = supervisor.Start()
	tell.Close()
	if err != nil {
		return "", 0, fmt.Errorf("start the supervisor: %w", err)
	}
	line, _ := bufio.NewReader(heard).ReadString('\n') // an error is an empty line
	if dir = strings.TrimSuffix(line, "\n"); dir == "" {
		return "", 0, refusedBySupervisor(supervisor, log)
	}
	if err := os.Rename(log.Name(), filepath.Join(logs, filepath.Base(dir)+".log")); err != nil {
		return "", 0, fmt.Errorf("name the supervisor's log: %w", err)
	}
	pid = supervisor.Process.Pid
	go func() { _ = supervisor.Wait() }() // ends with the supervisor, or with this process
	return dir, pid, nil
}

// refusedBySupervisor is the error of one that ended before there was a run.
func refusedBySupervisor(supervisor *exec.Cmd, log *os.File) error {
	waitErr := supervisor.Wait()
	said, err := os.ReadFile(log.Name())
	_ = os.Remove(log.Name())
	_ = os.Remove(filepath.Dir(log.Name())) // when nothing else is in it
	text := strings.TrimPrefix(strings.TrimSpace(string(said)), "Error: ")
	if err != nil || text == "" {
		text = fmt.Sprintf("the supervisor ended: %v", waitErr)
	}
	code := supervisor.ProcessState.ExitCode()
	if code <= 0 {
		code = report.ExitEnvironment
	}
	return &exitError{code: code, err: errors.New(text)}
}

// wordsOf are the words of a command after the executable. `ister scenario` mounts
// this tree under a word that the tree does not know; no command of the tree
// itself is called so.
func wordsOf(cmd *cobra.Command, typed []string) []string {
	words := strings.Fields(cmd.CommandPath())
	if words[0] == "scenario" && len(typed) > 1 && typed[1] == words[0] {
		return words
	}
	return words[1:]
}

// flagsOf writes the given flags of a command again.
func flagsOf(cmd *cobra.Command) []string {
	var words []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if notForSupervisor[flag.Name] {
			return
		}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			for _, value := range list.GetSlice() {
				words = append(words, "--"+flag.Name+"="+value)
			}
			return
		}
		words = append(words, "--"+flag.Name+"="+flag.Value.String())
	})
	return words
}

// announce tells the process that started this supervisor where the run is.
func announce(_, dir string) {
	out := os.NewFile(announceFD, "announce")
	fmt.Fprintln(out, dir)
	out.Close()
}

// detach starts a run that goes on by itself, and says its id.
func (c *common) detach(cmd *cobra.Command, args []string) error {
	dir, pid, err := c.supervise(cmd, args)
	if err != nil {
		return environment(err)
	}
	id := filepath.Base(dir)
	if c.json() {
		return printJSON(cmd.OutOrStdout(), map[string]any{"run_id": id, "directory": dir, "supervisor": pid})
	}
	fmt.Fprintln(cmd.OutOrStdout(), id)
	name := (&report.Run{ID: id, Directory: dir}).Name()
	fmt.Fprintf(cmd.ErrOrStderr(), "follow it: scenario watch %s; end it: scenario stop %s\n", name, name)
	return nil
}

// environment gives an error without an exit code that of the environment.
func environment(err error) error {
	var coded interface{ ExitCode() int }
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{code: report.ExitEnvironment, err: err}
}

func (c *common) watchCommand() *cobra.Command {
	progress := ""
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "Follow a run to its end, and exit as it does", Args: exactly("RUN"),
		Long: "Show a run from its first event to its end, whoever started it, and exit with its exit code. Ending this\ncommand does not end the run. RUN is an id, a unique part of one, a directory, or last.",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := c.find(args[0])
			if err != nil {
				return err
			}
			show, err := c.view(c.progressOut(cmd), progress, false)
			if err != nil {
				return err
			}
			defer show.Close() // before an error is printed
			record, err := run.Follow(cmd.Context(), dir, show, nil)
			return c.followed(cmd, show, record, err)
		},
	}
	progressFlag(cmd, &progress)
	return cmd
}

func progressFlag(cmd *cobra.Command, progress *string) {
	cmd.Flags().StringVar(progress, "progress", "auto", "auto, tty, plain or ndjson")
}

// progressOut is where progress goes: with -o json the output is the record alone.
func (c *common) progressOut(cmd *cobra.Command) io.Writer {
	if c.json() {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// followed shows the record of a run that was followed, and exits as it did.
func (c *common) followed(cmd *cobra.Command, show report.Display, record *report.Run, err error) error {
	switch {
	case errors.Is(err, run.ErrAbandoned):
		return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("%w; end what it left with: scenario stop %s", err, record.Name())}
	case errors.Is(err, context.Canceled):
		return &exitError{code: report.ExitInterrupted, err: fmt.Errorf("not followed to the end: run %s goes on", record.ID)}
	case err != nil:
		return environment(err)
	}
	return c.shown(cmd, show, record)
}

// shown prints the result of a run, and is the error of its exit code.
func (c *common) shown(cmd *cobra.Command, show report.Display, record *report.Run) error {
	if c.json() {
		if err := printJSON(cmd.OutOrStdout(), record); err != nil {
			return err
		}
	} else {
		show.Summary(record)
	}
	if record.ExitCode != report.ExitPass {
		return &exitError{code: record.ExitCode, silent: true}
	}
	return nil
}
