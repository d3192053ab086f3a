// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/control/api"
)

// Sequences of a terminal (ECMA-48; those with a ? are of xterm, and understood by all that are in use).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeCursor  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// topKeys are the keys that choose a table.
var topKeys = map[byte]string{'g': api.TopGuests, 'n': api.TopNames, 'w': api.TopNetworks, 'u': api.TopUpstreams}

// screen is what live shows.
type screen struct {
	*topper
	stream *stream
	out    *os.File
	// kind is the table that is shown, and last what is known, nil for nothing. told counts what has
	// come.
	kind string
	last *api.Top
	told int
	// warnings are shown above the table.
	warnings []string
}

// live shows a stream of top on a screen that changes, until a key or ctx ends it.
// Warnings stand above it, as stderr may be the same terminal.
func (t *topper) live(cmd *cobra.Command, stream *stream, warnings []string) error {
	s := &screen{topper: t, stream: stream, out: cmd.OutOrStdout().(*os.File), kind: t.kinds()[0], warnings: warnings} // it is a terminal
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
			done, err = s.take(r)
		}
		if done || err != nil {
			return err
		}
	}
}

// press does what a key is for. It reports whether it is to end.
func (s *screen) press(key byte) (end bool) {
	const lower = 'a' - 'A'
	if kind, ok := topKeys[key|lower]; ok {
		s.kind = kind
	}
	return key|lower == 'q'
}

// take takes what has come. It reports whether that was all that was asked for.
func (s *screen) take(r topResult) (all bool, err error) {
	if r.err != nil {
		err = s.stream.end(r.err, s.isComplete(s.told))
		return err == nil, err
	}
	s.last = r.top
	s.told++
	return false, nil
}

// topResult is what has come of a stream of top.
type topResult struct {
	top *api.Top
	err error
}

// readTops reads a stream on a goroutine, until it is closed.
func readTops(ctx context.Context, stream *stream) <-chan topResult {
	results := make(chan topResult)
	go func() {
		for err := error(nil); err == nil; {
			var line []byte
			var top *api.Top
			if line, err = stream.next(); err == nil {
				top, err = parseTop(line)
			}
			select {
			case results <- topResult{top, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return results
}

// keysOf has an input give the keys that are pressed until ctx ends, if it is a terminal. restore has the
// terminal as it was; it is to be called behind the end of ctx.
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

// draw draws the screen.
func (s *screen) draw() {
	p := newPage(s.out)
	for _, text := range s.warnings {
		p.line(in(yellow, "warning:"), said(text))
	}
	switch {
	case s.last == nil:
		p.linef("counting for %d s", s.interval)
	case s.last.Table(s.kind) == nil:
		p.top(s.last, nil)
		p.linef("")
		p.linef("%s: not asked for by --by", s.kind)
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
	_, _ = screen.WriteTo(s.out) // the next one shows what is amiss
}

// cutLine returns as much of a line as fits. What sets a colour takes no room, and is kept, as it ends the
// colour too.
func cutLine(line []byte, columns int) []byte {
	out, room, escaped := make([]byte, 0, len(line)), columns, false
	for _, r := range string(line) {
		switch {
		case r == '\x1b':
			escaped = true
		case escaped:
			escaped = r != 'm'
		case room == 0:
			continue
		default:
			room--
			out = append(out, string(r)...)
			continue
		}
		out = append(out, string(r)...)
	}
	return out
}

// sizeOf returns the size of a terminal, that of the oldest ones if it does not tell.
func sizeOf(terminal *os.File) (rows, columns int) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row < 4 || size.Col == 0 {
		return 24, 80
	}
	return int(size.Row), int(size.Col)
}

// withoutEcho has a terminal give each key at once and show none, and not stop the program, which would
// leave the screen as it is. restore undoes that.
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
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETSF, before) }, nil // it may be gone
}

// keyTime is how long it takes to see that no further key is wanted, in milliseconds.
const keyTime = 100

// readKeys gives each key that is pressed, until ctx ends or the terminal is gone.
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
