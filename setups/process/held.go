package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// held is what a shell does before it becomes the process that is to be started:
// it waits for a line that says that the process is in the ledger. Where its
// starter is killed before that, it reads the end of the pipe and is gone. So
// there is no moment in which something runs that no ledger knows.
const held = `read -r go <&3 || exit 125; exec 3<&-; exec "$0" "$@"`

// Start starts a command as the leader of a process group and enters it in the
// ledger before it does anything. The caller waits for it.
func (l *Ledger) Start(name string, cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return fmt.Errorf("start %s: %w", name, cmd.Err)
	}
	if len(cmd.ExtraFiles) > 0 {
		panic("process: the third file of a held process is its starter's")
	}
	heard, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer tell.Close()
	args := append([]string{cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"/bin/sh", "-c", held}, args...)
	cmd.ExtraFiles = []*os.File{heard}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	heard.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	err = l.Add(name, cmd.Process.Pid, args)
	if err == nil {
		if _, err = tell.WriteString("go\n"); err != nil {
			err = fmt.Errorf("start %s: %w", name, err)
		}
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), reap(cmd))
	}
	return nil
}

// reap waits for a process that was killed.
func reap(cmd *exec.Cmd) error {
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
