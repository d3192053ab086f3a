// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func watchCommand(o *options) *cobra.Command {
	var f filters
	var reconnect *time.Duration
	var past pastQueries
	rate, count := api.DefaultWatchRate, 0
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show queries as they are completed",
		Long: `watch shows each query of a guest when puntdns has completed it. RCODE is the
result:
  - the rcode of the answer, with the reason if no plugin has decided, such as a
    limit
  - RESUMED: the query continues to the server that the guest asked
  - DROPPED: the guest gets no answer

TOOK is the time from the packet to the result. Queries that the switch drops by
its rate limit do not reach puntdns, so watch does not show them.

` + filterHelp + `

--last and --since begin with past queries. puntdns stores the last 1024 queries
of all guests in its memory, so a restart forgets them.

watch shows --rate queries a second at most. It counts the queries beyond this
rate, and the queries that puntctl did not read fast enough. watch delays no
query.

If puntdns restarts, watch continues with the new process. It ends after --count
queries, or by Ctrl-C.`,
		Example: `  puntctl watch
  puntctl watch --last 20 --no-follow
  puntctl watch --since 30s --switch red --rcode SERVFAIL,DROPPED
  puntctl watch --port red-vm1 --name '*.example.org' -n 10 -o wide`,
		Args: needs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("count") && count < 1 {
				return fmt.Errorf("--count %d: expected 1 or more", count)
			}
			parameters := f.parameters(cmd, o)
			if err := past.ask(parameters); err != nil {
				return err
			}
			if past.only {
				*reconnect = 0 // the next process stores later queries only
			}
			parameters.Set("rate", strconv.Itoa(rate))
			w := &watcher{options: o, out: bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10), page: o.newPage(cmd.OutOrStdout())}
			s := &lasting{ctx: cmd.Context(), patience: *reconnect}
			s.complete = func() bool { return count > 0 && w.shown >= uint64(count) } // only the line that says so is lost
			s.open = func() (*stream, error) {
				if count > 0 {
					parameters.Set("count", strconv.FormatUint(uint64(count)-w.shown, 10))
				}
				return o.client(cmd).open(cmd.Context(), api.PathWatch, parameters)
			}
			s.lost = func(err error) {
				parameters.Del("last") // the next process stores later queries only
				parameters.Del("since")
				fmt.Fprintf(cmd.ErrOrStderr(), "puntctl: %v\n", err)
			}
			if past.since > 0 {
				w.since, w.errs = time.Now().Add(-past.since), cmd.ErrOrStderr()
			}
			if err := s.begin(); err != nil {
				return unlessInterrupted(cmd, named(cmd, err))
			}
			defer s.close()
			f.warn(cmd, o)
			err := unlessInterrupted(cmd, w.run(s))
			if o.isForPeople() {
				w.summary(cmd.ErrOrStderr(), rate)
			}
			return err
		},
	}
	f.add(cmd, o)
	reconnect = addReconnect(cmd)
	cmd.Flags().IntVar(&rate, "rate", rate, fmt.Sprintf("queries a second to show at most, up to %d", api.MaxWatchRate))
	cmd.Flags().IntVar(&past.last, "last", 0, fmt.Sprintf("begin with this number of past queries, up to %d", api.WatchHistory))
	cmd.Flags().DurationVar(&past.since, "since", 0, "begin with the past queries that are not older, such as 30s (default: none)")
	cmd.Flags().BoolVar(&past.only, "no-follow", false, "end after the past queries")
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after this number of queries (default: never)")
	return cmd
}

// pastQueries are the stored queries at the beginning: the last ones, or those since a time; 0 is no limit.
// only ends watch after them.
type pastQueries struct {
	last  int
	since time.Duration
	only  bool
}

func (q *pastQueries) ask(parameters url.Values) error {
	switch {
	case q.last < 0 || q.last > api.WatchHistory:
		return fmt.Errorf("--last %d: expected at most %d", q.last, api.WatchHistory)
	case q.since < 0:
		return fmt.Errorf("--since %s: expected a duration of more than 0", q.since)
	case q.only && q.last == 0 && q.since == 0:
		return errors.New("--no-follow: expected --last or --since, too")
	}
	if q.last > 0 {
		parameters.Set("last", strconv.Itoa(q.last))
	}
	if q.since > 0 {
		parameters.Set("since", strconv.FormatInt(int64(math.Ceil(q.since.Seconds())), 10))
	}
	if q.only {
		parameters.Set("follow", "false")
	}
	return nil
}

// unlessInterrupted returns nil if a signal has ended the command.
func unlessInterrupted(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		err = nil
	}
	return err
}

type watcher struct {
	*options
	out    *bufio.Writer
	page   *page
	widths []int
	// over counts queries over the rate, lost those that puntctl read too slowly.
	shown, over, lost uint64
	// since is the beginning of --since, zero without it. errs gets a warning if stored queries begin later.
	since time.Time
	errs  io.Writer
}

// watchColumns begin with their first width, so that most lines align. Longer words widen a column up to
// maxWidth.
var watchColumns = []struct {
	column
	first int
}{
	{column{"TIME", 0}, 12}, {column{"TOOK", 0}, 6}, {column{"PORT", cut}, 12}, {column{"SWITCH", wide}, 10}, {column{"CLIENT", wide}, 21}, {column{"SERVER", wide}, 18},
	{column{"VIA", wide}, 3}, {column{"TYPE", cut}, 5}, {column{"RCODE", 0}, 8}, {column{"BLOCK", wide}, 11}, {column{"UPSTREAM", wide}, 15}, {column{"NAME", cut}, 0},
}

const maxWidth = 48

func (w *watcher) run(s *lasting) (err error) {
	defer func() { err = errors.Join(err, w.out.Flush()) }()
	if w.isForPeople() {
		w.begin()
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
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.line(line); err != nil {
			if errors.Is(err, errEnded) {
				return nil
			}
			return err
		}
	}
}

func (w *watcher) begin() {
	heading := make([]cell, len(watchColumns))
	w.widths = make([]int, len(watchColumns))
	for i, c := range watchColumns {
		heading[i], w.widths[i] = cell{text: c.heading}, c.first
	}
	w.row(heading)
}

// line returns errEnded after the last line.
func (w *watcher) line(line []byte) error {
	var l api.WatchLine
	if err := json.Unmarshal(line, &l); err != nil {
		return &exitError{status: exitNoProcess, err: fmt.Errorf("puntctl can't read a line: %w; expected a puntdns of the same version", err)}
	}
	if !w.isForPeople() {
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
		if w.isForPeople() {
			w.page.line(in(yellow, "-- not shown: "+notShown(l.OverRate, l.Lost)))
			return w.flushPage()
		}
	case api.EventHistory:
		if !w.since.IsZero() && l.Time.After(w.since) {
			fmt.Fprintf(w.errs, "puntdns stores no queries before %s\n", l.Time.Local().Format("15:04:05"))
		}
	case api.EventQuery:
		w.shown++
		if w.isForPeople() {
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

func notShown(over, lost uint64) string {
	var parts []string
	if over > 0 {
		parts = append(parts, fmt.Sprintf("%d over --rate", over))
	}
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%d that puntctl did not read fast enough", lost))
	}
	return strings.Join(parts, ", ")
}

func (w *watcher) summary(to io.Writer, rate int) {
	text := fmt.Sprintf("%d queries shown", w.shown)
	if w.over+w.lost > 0 {
		text += "; not shown: " + notShown(w.over, w.lost)
	}
	if w.over > 0 {
		text += fmt.Sprintf(" (--rate is %d a second; a filter reduces the number)", rate)
	}
	fmt.Fprintln(to, text)
}

// row cuts a port to a fifth of a terminal's width, and a name at its end, since the width of later rows is
// unknown.
func (w *watcher) row(cells []cell) {
	p, at := w.page, 0
	for i, c := range cells {
		l := watchColumns[i].layout
		if l&wide != 0 && !p.wide {
			continue
		}
		last := i == len(cells)-1
		if p.columns > 0 && l&cut != 0 {
			room := p.columns / 5
			if last {
				room = p.columns - at
			}
			c.text = cutTo(c.text, max(leastCut, room))
		}
		p.text.WriteString(p.paint(c))
		if last {
			break
		}
		n := widthOf(c.text)
		w.widths[i] = max(w.widths[i], min(n, maxWidth))
		p.text.WriteString(strings.Repeat(" ", max(0, w.widths[i]-n)+gap))
		at += max(n, w.widths[i]) + gap
	}
	p.text.WriteByte('\n')
}

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
		said(l.Time.Local().Format("15:04:05.000")), said(brief(l.Seconds)), said(l.Port), said(l.Switch), said(l.Client), said(l.Server),
		said(l.Transport), said(typ), rcodeCell(l), said(block), said(l.Upstream), said(l.Name),
	}
}

// rcodeCell adds the reason unless a plugin has decided.
func rcodeCell(l *api.WatchLine) cell {
	text := l.Rcode
	if l.Reason != "" && l.Reason != "chain" {
		text += " " + l.Reason
	}
	c := said(text)
	c.colour = outcomeColour(l)
	return c
}

// outcomeColour returns none for an answer or a resume, yellow for a refusal, red for a failure or a drop.
func outcomeColour(l *api.WatchLine) colour {
	switch {
	case l.Rcode == "NOERROR" || l.Rcode == "NXDOMAIN" || l.Rcode == "RESUMED":
		return ""
	case l.Rcode == "REFUSED" || l.Result == "refused":
		return yellow
	}
	return red
}

// brief formats with three digits: 42.1us, 1.24ms, 2.05s. It returns "" for 0.
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
