// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/control/api"
)

// Control sequences of ECMA-48. Those with a ? are of xterm; all terminals in use understand them.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeCursor  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

var topKeys = map[byte]string{'g': api.TopGuests, 'n': api.TopNames, 'w': api.TopNetworks, 'u': api.TopUpstreams}

type screen struct {
	*topper
	out *os.File
	// last is the newest state, nil for none.
	kind string
	last *api.Top
	// outage is why there is no newer state, "" while connected.
	outage   string
	warnings []string
}

// live shows top until a key or ctx ends it. The screen has the warnings, as stderr may be the same terminal.
func (t *topper) live(cmd *cobra.Command, stream *lasting, warnings []string) error {
	s := &screen{topper: t, out: cmd.OutOrStdout().(*os.File), kind: t.kinds()[0], warnings: warnings} // it is a terminal
	ctx, cancel := context.WithCancel(cmd.Context())
	keys, restore, err := keysOf(ctx, cmd.InOrStdin())
	if err != nil {
		cancel()
		return err
	}
	defer restore()
	defer cancel()
	fmt.Fprint(s.out, enterScreen)
	defer fmt.Fprint(s.out, leaveScreen)
	results := readTops(ctx, stream)
	for {
		s.draw()
		done := false
		select {
		case <-ctx.Done():
			return nil
		case key := <-keys:
			done = s.press(key)
		case r := <-results:
			done, err = s.take(&r)
		}
		if done || err != nil {
			return err
		}
	}
}

func (s *screen) press(key byte) (end bool) {
	const lower = 'a' - 'A'
	if kind, ok := topKeys[key|lower]; ok {
		s.kind = kind
	}
	return key|lower == 'q'
}

// take reports whether the stream is complete.
func (s *screen) take(r *topResult) (all bool, err error) {
	switch {
	case errors.Is(r.err, io.EOF):
		return true, nil
	case r.err != nil:
		return false, r.err
	case r.outage != "":
		s.outage = r.outage
	default:
		s.last, s.outage = r.top, ""
	}
	return false, nil
}

// topResult has one field set; err ends the stream.
type topResult struct {
	top    *api.Top
	outage string
	err    error
}

// readTops starts a goroutine that ends with an error or ctx.
func readTops(ctx context.Context, stream *lasting) <-chan topResult {
	results := make(chan topResult)
	stream.lost = func(err error) {
		select {
		case results <- topResult{outage: err.Error()}:
		case <-ctx.Done():
		}
	}
	go func() {
		for err := error(nil); err == nil; {
			var line []byte
			var top *api.Top
			if line, err = stream.next(); err == nil {
				top, err = parseTop(line)
			}
			select {
			case results <- topResult{top: top, err: err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return results
}

// keysOf returns nil if the input is no terminal. Call restore after the end of ctx: it waits for the
// goroutine, and resets the terminal.
func keysOf(ctx context.Context, input io.Reader) (keys <-chan byte, restore func(), err error) {
	in, ok := input.(*os.File)
	if !ok || !isTerminal(in) {
		return nil, func() {}, nil
	}
	reset, err := withoutEcho(in)
	if err != nil {
		return nil, nil, err
	}
	pressed, ended := make(chan byte), make(chan struct{})
	go func() {
		defer close(ended)
		readKeys(ctx, in, pressed)
	}()
	return pressed, func() {
		<-ended
		reset()
	}, nil
}

func (s *screen) draw() {
	p := s.newPage(s.out)
	for _, text := range s.warnings {
		p.sentence(in(yellow, "warning: "+text))
	}
	if s.outage != "" {
		p.sentence(in(yellow, s.outage))
	}
	switch {
	case s.last == nil:
		p.linef("counting for %d s", s.interval)
	case s.last.Table(s.kind) == nil:
		p.top(s.last, nil)
		p.linef("")
		p.linef("%s: not in --by", s.kind)
	default:
		p.top(s.last, []string{s.kind})
	}
	rows, columns := sizeOf(s.out)
	var screen bytes.Buffer
	screen.WriteString(homeCursor)
	lines := bytes.Split(bytes.TrimSuffix(p.text.Bytes(), []byte("\n")), []byte("\n"))
	for _, line := range lines[:min(len(lines), rows-2)] {
		screen.Write(cutLine(line, columns))
		screen.WriteString(clearLine + "\r\n")
	}
	screen.WriteString(clearBelow + fmt.Sprintf("\x1b[%d;1H", rows))
	screen.Write(cutLine([]byte("g guests  n names  w networks  u upstreams  q quit"), columns-1))
	_, _ = screen.WriteTo(s.out) // the next draw tries again
}

// cutLine fits a line to columns. It keeps all colour sequences, which take no column; the last one ends the
// colour.
func cutLine(line []byte, columns int) []byte {
	var out []byte
	for room := columns; len(line) > 0; {
		if line[0] == '\x1b' {
			end := bytes.IndexByte(line, 'm') + 1
			out, line = append(out, line[:end]...), line[end:]
			continue
		}
		cluster, _, width, _ := uniseg.FirstGraphemeCluster(line, -1)
		line = line[len(cluster):]
		if room -= width; room >= 0 {
			out = append(out, cluster...)
		}
	}
	return out
}

// sizeOf returns 80x24 if the terminal reports no size, or fewer than 4 rows.
func sizeOf(terminal *os.File) (rows, columns int) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row < 4 || size.Col == 0 {
		return 24, 80
	}
	return int(size.Row), int(size.Col)
}

// withoutEcho delivers each key at once, and disables the keys that suspend or quit, which would not restore
// the screen.
func withoutEcho(terminal *os.File) (restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	changed := *before
	changed.Lflag &^= unix.ICANON | unix.ECHO
	changed.Cc[unix.VMIN], changed.Cc[unix.VTIME], changed.Cc[unix.VSUSP], changed.Cc[unix.VQUIT] = 1, 0, 0, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &changed); err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETSF, before) }, nil // the terminal may be gone
}

// keyTime is how soon readKeys notices the end of ctx, in milliseconds.
const keyTime = 100

// readKeys runs until ctx ends or the terminal is gone.
func readKeys(ctx context.Context, terminal *os.File, keys chan<- byte) {
	poll := []unix.PollFd{{Fd: int32(terminal.Fd()), Events: unix.POLLIN}}
	for ctx.Err() == nil {
		n, err := unix.Poll(poll, keyTime)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if n <= 0 {
			continue
		}
		var b [64]byte
		n, err = unix.Read(int(poll[0].Fd), b[:])
		if err != nil || n == 0 {
			return
		}
		for _, key := range b[:n] {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}
