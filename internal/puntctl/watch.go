// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func watchCommand(o *options) *cobra.Command {
	var f filters
	rate, count := api.DefaultWatchRate, 0
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show queries as they are dealt with",
		Long: `watch shows each query of a guest once it has been dealt with, whatever has become of it: answered by a
plugin or from memory, refused by a limit, passed on to the server that the guest has asked (RESUMED),
or without an answer (DROPPED). TOOK is the time from the packet to that. Queries that the switch drops
by rate do not get to the process.

` + filterHelp + `

Not more than --rate queries a second are shown; how many there were beyond is said each second, and so
is how many were lost as this client has not read fast enough. No query waits for any of it.

It ends after --count queries, or by Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parameters := f.parameters()
			parameters.Set("rate", strconv.Itoa(rate))
			if cmd.Flags().Changed("count") {
				if count < 1 {
					return fmt.Errorf("count %d: expected 1 or more", count)
				}
				parameters.Set("count", strconv.Itoa(count))
			}
			s, err := o.client(cmd).open(cmd.Context(), api.PathWatch, parameters)
			if err != nil {
				return unlessInterrupted(cmd, err)
			}
			defer s.close()
			f.warn(cmd, o)
			w := &watcher{options: o, out: bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10), page: newPage(cmd.OutOrStdout())}
			err = unlessInterrupted(cmd, w.run(s))
			if o.format == formatTable {
				w.summary(cmd.ErrOrStderr(), rate)
			}
			return err
		},
	}
	f.add(cmd, o)
	cmd.Flags().IntVar(&rate, "rate", rate, fmt.Sprintf("how many queries a second are shown at most, up to %d", api.MaxWatchRate))
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after so many queries (default: never)")
	return cmd
}

// unlessInterrupted returns nil for an error that comes of the end of the command by a signal.
func unlessInterrupted(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		err = nil
	}
	return err
}

// watcher shows the lines of a stream.
type watcher struct {
	*options
	out  *bufio.Writer
	page *page
	// columns are as wide as they have been so far.
	columns []int
	// shown counts queries; over and lost are those that are not shown.
	shown, over, lost uint64
}

// watchHeading is above the queries. The last column has no width.
var watchHeading = []string{"TIME", "TOOK", "PORT", "SWITCH", "CLIENT", "SERVER", "VIA", "TYPE", "NAME", "RCODE", "BLOCK", "UPSTREAM"}

// firstWidths are the widths of columns before a query is known: those that most queries need, so that
// few lines are out of line. maxWidth is the widest that a column gets for longer words.
var firstWidths = []int{15, 6, 12, 10, 21, 18, 3, 5, 28, 8, 11, 0}

const maxWidth = 48

// run shows a stream up to its end.
func (w *watcher) run(s *stream) (err error) {
	defer func() { err = errors.Join(err, w.out.Flush()) }()
	if w.format == formatTable {
		w.columns = append(w.columns, firstWidths...)
		w.row(headingCells(watchHeading))
		if err := w.flushPage(); err != nil {
			return err
		}
	}
	for {
		if !s.more() {
			if err := w.out.Flush(); err != nil {
				return err
			}
		}
		line, err := s.next()
		if err != nil {
			return s.end(err, false) // its last line is missing
		}
		if err := w.line(line); err != nil {
			if errors.Is(err, errEnded) {
				return nil
			}
			return err
		}
	}
}

// line shows one line. It is errEnded behind the last one.
func (w *watcher) line(line []byte) error {
	var l api.WatchLine
	if err := json.Unmarshal(line, &l); err != nil {
		return &exitError{exitNoProcess, fmt.Errorf("a line is not understood: %w; expected that of a puntdns of this version", err)}
	}
	if w.format != formatTable {
		if err := w.raw(w.out, line); err != nil {
			return err
		}
	}
	switch l.Event {
	case api.EventEnd:
		w.over, w.lost = l.OverRate, l.Lost
		return errEnded
	case api.EventMissed:
		w.over, w.lost = w.over+l.OverRate, w.lost+l.Lost
		if w.format == formatTable {
			w.page.line(in(yellow, "-- not shown: "+notShown(l.OverRate, l.Lost)))
			return w.flushPage()
		}
	case api.EventQuery:
		w.shown++
		if w.format == formatTable {
			w.row(queryCells(&l))
			return w.flushPage()
		}
	}
	return nil
}

func (w *watcher) flushPage() error {
	_, err := w.out.Write(w.page.text.Bytes())
	w.page.text.Reset()
	return err
}

// notShown says which queries are not shown.
func notShown(over, lost uint64) string {
	var parts []string
	if over > 0 {
		parts = append(parts, fmt.Sprintf("%d over the rate", over))
	}
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%d lost, as they were not read fast enough", lost))
	}
	return strings.Join(parts, ", ")
}

// summary says at the end what was shown, and what was not.
func (w *watcher) summary(to io.Writer, rate int) {
	text := fmt.Sprintf("%d queries shown", w.shown)
	if w.over+w.lost > 0 {
		text += "; not shown: " + notShown(w.over, w.lost)
	}
	if w.over > 0 {
		text += fmt.Sprintf(" (--rate is %d a second; a filter shows less)", rate)
	}
	fmt.Fprintln(to, text)
}

// row writes cells in columns.
func (w *watcher) row(cells []cell) {
	for i, c := range cells {
		n := utf8.RuneCountInString(c.text)
		w.page.text.WriteString(w.page.paint(c))
		if i == len(cells)-1 {
			break
		}
		w.columns[i] = max(w.columns[i], min(n, maxWidth))
		w.page.text.WriteString(strings.Repeat(" ", max(0, w.columns[i]-n)+2))
	}
	w.page.text.WriteByte('\n')
}

// queryCells returns what is shown of a query.
func queryCells(l *api.WatchLine) []cell {
	block, _, _ := strings.Cut(l.Block, " - ")
	if block != "" {
		block = path.Base(block)
	}
	typ := l.Type
	if l.Class != "" {
		typ += " " + l.Class
	}
	return []cell{
		said(l.Time.Local().Format("15:04:05.000000")), said(brief(l.Seconds)), said(l.Port), said(l.Switch), said(l.Client), said(l.Server),
		said(l.Transport), said(typ), said(l.Name), rcodeCell(l), said(block), said(l.Upstream),
	}
}

// rcodeCell returns the rcode, with the reason if no plugin has decided on it.
func rcodeCell(l *api.WatchLine) cell {
	text := l.Rcode
	if l.Reason != "" && l.Reason != "chain" {
		text += " " + l.Reason
	}
	switch l.Rcode {
	case "NOERROR", "NXDOMAIN", "RESUMED":
		return said(text)
	}
	return in(red, text)
}

// brief returns a short duration with three digits: 42.1us, 1.24ms, 2.05s.
func brief(seconds float64) string {
	unit, value := "s", seconds
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d <= 0:
		return ""
	case d < time.Millisecond:
		unit, value = "us", seconds*1e6
	case d < time.Second:
		unit, value = "ms", seconds*1e3
	}
	digits := 2
	for limit := 10.0; value >= limit && digits > 0; limit *= 10 {
		digits--
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + unit
}
