package byhand

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// driver is the shell's program: it takes a file for the output and a command,
// both ended by a zero byte, and answers with the exit status. Commands share
// the shell, and so variables, jobs and the directory. They do not inherit the
// two pipes, or the shell would not see that its user is gone.
const driver = `
while IFS= read -r -d '' ister_out <&3 && IFS= read -r -d '' ister_line <&3; do
  eval "$ister_line" </dev/null >"$ister_out" 2>&1 3<&- 4>&-
  printf '%s\n' "$?" >&4
done`

// togetherDriver has a process beside it that ends the group once this program is
// gone, however that came: it reads from a pipe that nobody writes to. It is no
// job, so that a line's wait does not wait for it.
const togetherDriver = `
( exec </dev/null >/dev/null 2>&1 3<&- 4>&-; read -r _ <&5; kill -9 0 ) & disown
exec 5<&-` + driver

// apartDriver first brings up the shell's own loopback interface and process
// table, and says so. Outgoing connections take their ports from a range that no
// skill listens on: by default it holds 50051 and the like, and a client could
// have the port of a broker that starts later.
const apartDriver = `
if problem=$( { mount --make-rprivate / && mount -t proc proc /proc && ip link set lo up; } 2>&1 ); then
  echo 20000 40000 2>/dev/null >/proc/sys/net/ipv4/ip_local_port_range
  exec 5<&-
  printf 'apart\n' >&4
else
  printf '%s\n' "${problem//$'\n'/; }" >&4
  exit 1
fi
set -m` + driver

// sharedNetwork leaves out of apartDriver what is about a network of its own.
var sharedNetwork = strings.NewReplacer(" && ip link set lo up", "", "  echo 20000 40000 2>/dev/null >/proc/sys/net/ipv4/ip_local_port_range\n", "")

// errEnded is a shell that ended by itself.
var errEnded = errors.New("the shell ended: a command of the line ends it (exit, exec)")

// answersMax is how many answers nobody may wait for: that of a command that was
// given up, and that of the shell's end. So listening never blocks.
const answersMax = 2

// endFor bounds how long the processes of a shell may take to be gone.
const endFor = 10 * time.Second

// shell is a bash that runs line after line.
type shell struct {
	cmd      *exec.Cmd
	commands io.WriteCloser
	watch    io.Closer // its end is that of a shell that is not apart
	statuses *bufio.Reader
	answers  chan answer
	gone     chan struct{} // closed once the process has been waited for
	apart    bool
	once     sync.Once
}

type answer struct {
	status int
	err    error
}

// startShell starts a shell in a directory. How says what is its own.
func startShell(dir string, env []string, how separation) (*shell, error) {
	taken, give, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	heard, tell, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	watched, watch, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	program := togetherDriver
	if how != together {
		program = apartDriver
	}
	if how == processes {
		program = sharedNetwork.Replace(program)
	}
	s := &shell{commands: give, watch: watch, statuses: bufio.NewReader(heard), answers: make(chan answer, answersMax), gone: make(chan struct{}), apart: how != together}
	s.cmd = exec.Command("bash", "--noprofile", "--norc", "-c", program)
	s.cmd.Dir, s.cmd.Env, s.cmd.ExtraFiles = dir, env, []*os.File{taken, tell, watched}
	s.cmd.SysProcAttr = attributes(how)
	started := make(chan error)
	go func() {
		// The shell dies with the thread that started it, so that nothing is left
		// when this process is killed: the thread has to stay as long as the shell.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		taken.Close()
		tell.Close()
		watched.Close()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // ended by end, whatever its status
		}
		close(s.gone)
	}()
	if err := <-started; err != nil {
		give.Close()
		heard.Close()
		watch.Close()
		return nil, fmt.Errorf("start a shell: %w", err)
	}
	if s.apart {
		if line, _ := s.statuses.ReadString('\n'); line != "apart\n" {
			s.end()
			return nil, fmt.Errorf("set up a network of its own: %s", strings.TrimSpace(line))
		}
	}
	go s.listen()
	return s, nil
}

// listen hands on exit statuses, and ends with the shell.
func (s *shell) listen() {
	for {
		line, err := s.statuses.ReadString('\n')
		a := answer{err: errEnded}
		if err == nil {
			if a.status, a.err = strconv.Atoi(strings.TrimSpace(line)); a.err != nil {
				a.err = fmt.Errorf("the shell answered %q", line)
			}
		}
		s.answers <- a
		if err != nil {
			return
		}
	}
}

// do runs a command, whose output goes to a file. After an error the shell is of
// no more use.
func (s *shell) do(ctx context.Context, command, file string) (status int, err error) {
	if _, err := io.WriteString(s.commands, file+"\x00"+command+"\x00"); err != nil {
		return 0, errEnded
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case a := <-s.answers:
		return a.status, a.err
	}
}

// end ends the shell and everything that it started.
func (s *shell) end() {
	s.once.Do(func() {
		s.commands.Close()
		s.watch.Close()
		killAll(s.cmd.Process, s.apart, s.gone)
	})
}
