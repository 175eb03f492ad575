package report

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// The pace of drawing.
const (
	drawEvery    = time.Second            // without news
	drawSoonest  = 100 * time.Millisecond // after news
	fallbackWide = 100                    // of an output whose size is not known
	fallbackTall = 30
)

// What a terminal is told. The view has the alternate screen, so that the normal
// one is as it was when the view goes.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	goHome      = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// Live shows a run on a terminal as one screen that is drawn again and again.
// When it is closed the terminal is as it was, with the lines that a plain display
// would have written.
type Live struct {
	out   io.Writer
	size  func() (width, height int)
	color bool

	mu    sync.Mutex
	view  View         // guarded by mu
	lines *Terminal    // guarded by mu: writes to after
	after bytes.Buffer // guarded by mu: what is written when the view goes
	shown *painter     // guarded by mu; nil while the normal screen shows
}

// painter is the goroutine that draws.
type painter struct {
	news chan struct{} // of one place
	stop chan struct{}
	done chan struct{}
}

// NewLive shows runs on out, which is a terminal or is taken for one.
func NewLive(out io.Writer, color bool) *Live {
	l := &Live{out: out, color: color, size: func() (int, int) { return sizeOf(out) }}
	l.lines = NewTerminal(&l.after, false, color, false)
	l.lines.width = NewTerminal(out, false, color, false).width
	return l
}

func sizeOf(out io.Writer) (width, height int) {
	if file, ok := out.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return fallbackWide, fallbackTall
}

// Event implements Sink.
func (l *Live) Event(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view.Take(e)
	if e.Kind != StepSays { // it showed while it mattered
		l.lines.Event(e)
	}
	if l.shown == nil {
		l.shown = &painter{news: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
		go l.paint(l.shown)
	}
	select {
	case l.shown.news <- struct{}{}:
	default: // it will look anyway
	}
}

// Summary closes the view and writes the result of the run.
func (l *Live) Summary(r *Run) {
	l.Close()
	NewTerminal(l.out, false, l.color, false).Summary(r)
}

// Close gives the terminal back. It may be called again.
func (l *Live) Close() {
	l.mu.Lock()
	shown := l.shown
	l.shown = nil
	l.mu.Unlock()
	if shown != nil {
		close(shown.stop)
		<-shown.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(l.after.Bytes()) // a terminal that went away does not end the run
	l.after.Reset()
}

// paint draws until it is told to stop. A terminal that is suspended is given
// back first, and taken again afterwards.
func (l *Live) paint(p *painter) {
	defer close(p.done)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)
	defer signal.Stop(signals)
	ticker := time.NewTicker(drawEvery)
	defer ticker.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	pending := true // soon is set
	suspended := false
	draw := func() {
		if !suspended { // the process may go on for a moment before it stops
			l.draw()
		}
	}
	l.write(enterScreen)
	defer func() {
		if !suspended {
			l.write(leaveScreen)
		}
	}()
	for {
		select {
		case <-p.stop:
			return
		case <-p.news:
			if !pending {
				soon.Reset(drawSoonest)
				pending = true
			}
		case <-soon.C:
			pending = false
			draw()
		case <-ticker.C:
			draw()
		case s := <-signals:
			switch {
			case s == syscall.SIGTSTP:
				suspended = true
				l.write(leaveScreen)
				suspend()
			case s == syscall.SIGCONT && suspended:
				suspended = false
				l.write(enterScreen)
			case !suspended:
				l.write("\x1b[2J") // another size, or another's doing
			}
			draw()
		}
	}
}

// suspend stops this process, as the terminal asked. It goes on with SIGCONT.
func suspend() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// draw writes one frame at once. Every line is cleared to its end: what was typed
// meanwhile goes away.
func (l *Live) draw() {
	width, height := l.size()
	l.mu.Lock()
	lines := l.view.Lines(width, height, time.Now(), l.color)
	l.mu.Unlock()
	var frame strings.Builder
	frame.WriteString(goHome)
	for i, text := range lines[:min(len(lines), height)] {
		if i > 0 {
			frame.WriteString("\r\n")
		}
		frame.WriteString(text + clearLine)
	}
	frame.WriteString(clearBelow)
	l.write(frame.String())
}

func (l *Live) write(text string) { _, _ = io.WriteString(l.out, text) }
