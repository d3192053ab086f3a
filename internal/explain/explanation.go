// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/opentracing/opentracing-go"
)

var active atomic.Int32

// Limits of one explanation, whose notes have names of tenants.
const (
	maxSteps = 500
	maxNotes = 50
	maxNote  = 2000 // bytes
)

// Explanation is safe for concurrent use.
type Explanation struct {
	begun time.Time
	ended atomic.Bool

	mu sync.Mutex
	// root is the chain itself, steps are all in the order of their begin. mu guards them, what they have,
	// and the fields below.
	root     *Step
	steps    []*Step
	views    []View
	findings []Finding
	// block and view take the query, empty for none.
	block, view string
	taken       bool
	// cached is the Content of *cache*'s entry, below that of the plugins below; empty for none.
	cached, below string
	answered      *Step
	// wouldAnswer is the step without *cache*'s entry; nil for none.
	wouldAnswer *Step
	truncated   bool
	err         error
	searches    []Search
	forwarded   string
}

// Search finds why a network lacks a name, if that takes time or a connection.
type Search func() (findings []Finding, err error)

// Step is the part of one plugin in an explanation.
type Step struct {
	of     *Explanation
	parent *Step // nil for the root
	plugin string
	// begun counts from the explanation's begin, took includes plugins behind. Explanation.mu guards them.
	begun, took time.Duration
	ended, left bool
	notes       []string
}

// Finding is why a query does not get the expected answer.
type Finding struct {
	Code, Text string
	// Remedy says what to do, Commands are shell lines. Both may be empty.
	Remedy   string
	Commands []string
}

// View is a view that was evaluated.
type View struct {
	Block, Name string
	Matches     bool
	Expressions []Expression
	Labels      []Label
}

// Expression is an expression of a view, with its result or error.
type Expression struct {
	Text, Value, Err string
}

// Label is a label of metadata.
type Label struct{ Name, Value string }

// New returns an explanation, which has to be ended.
func New() *Explanation {
	e := &Explanation{begun: time.Now()}
	e.root = &Step{of: e}
	active.Add(1)
	return e
}

// End ends the explanation. Later changes are ignored.
func (e *Explanation) End() {
	if !e.ended.Swap(true) {
		active.Add(-1)
	}
}

// Context returns a context by which the plugins of a chain explain.
func (e *Explanation) Context(ctx context.Context) context.Context {
	return opentracing.ContextWithSpan(ctx, &span{step: e.root})
}

// Of returns the step of this context's plugin, nil if not explained.
func Of(ctx context.Context) *Step {
	if active.Load() == 0 {
		return nil
	}
	s, _ := opentracing.SpanFromContext(ctx).(*span)
	if s == nil {
		return nil
	}
	return s.step
}

// change runs f with the lock, unless the explanation has ended.
func (e *Explanation) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended.Load() {
		f()
	}
}

func (e *Explanation) begin(parent *Step, plugin string) *Step {
	s := &Step{of: e, parent: parent, plugin: plugin, begun: time.Since(e.begun)}
	e.change(func() {
		if len(e.steps) >= maxSteps {
			e.truncated = true
			return
		}
		e.steps = append(e.steps, s)
	})
	return s
}

func (s *Step) end() {
	took := time.Since(s.of.begun) - s.begun
	s.of.change(func() {
		if !s.ended {
			s.ended, s.took = true, took
		}
	})
}

// Notef adds a note on the plugin's decision.
func (s *Step) Notef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.of.change(func() {
		if len(s.notes) >= maxNotes {
			s.of.truncated = true
			return
		}
		s.notes = append(s.notes, text[:min(len(text), maxNote)])
	})
}

// Find adds a finding. A nil Step ignores it.
func (s *Step) Find(f Finding) {
	if s != nil {
		s.of.Find(f)
	}
}

// Find adds a finding, unless one has the same code and text.
func (e *Explanation) Find(f Finding) {
	e.change(func() {
		known := slices.ContainsFunc(e.findings, func(o Finding) bool { return o.Code == f.Code && o.Text == f.Text })
		if len(e.findings) < maxNotes && !known {
			e.findings = append(e.findings, f)
		}
	})
}

// Forwards records the name of *forward*, which a plugin may have changed.
func (s *Step) Forwards(name string) { s.of.change(func() { s.of.forwarded = name }) }

// IfDenied adds a search for a denied name or type. It runs after the plugins.
func (s *Step) IfDenied(search Search) {
	s.of.change(func() { s.of.searches = append(s.of.searches, search) })
}

// Asked returns the upstreams of this forward, else of the last one behind it that asked any, each once, in
// order.
func (s *Step) Asked() (all []string) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	var of *Step
	for _, c := range s.of.steps {
		if c.plugin != Connect || !c.parent.isForwardOf(s) {
			continue
		}
		if c.parent != of {
			of, all = c.parent, nil
		}
		for _, address := range c.notes {
			if !slices.Contains(all, address) {
				all = append(all, address)
			}
		}
	}
	return all
}

// isForwardOf is true for first, and a *forward* directly behind it.
func (s *Step) isForwardOf(first *Step) bool {
	for s != nil && s != first && (s.plugin == first.plugin || s.plugin == Connect) {
		s = s.parent
	}
	return s == first
}

// Passed reports whether this step called another plugin.
func (s *Step) Passed() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return slices.ContainsFunc(s.of.steps, func(c *Step) bool { return c.parent == s && !c.left && c.plugin != Connect })
}

// Enter begins the step of a bypassed plugin whose answer counts. It has to be ended.
func (s *Step) Enter(plugin string) *Step { return s.of.begin(s, plugin) }

// End ends a step of Enter.
func (s *Step) End() { s.end() }

// Leave records a bypassed plugin.
func (s *Step) Leave(plugin string, notes ...string) {
	left := s.of.begin(s, plugin)
	for _, text := range notes {
		left.Notef("%s", text)
	}
	s.of.change(func() { left.left, left.ended = true, true })
}

// Take records the block that takes the query. It ignores lookups by plugins.
func (s *Step) Take(block, view string) {
	s.of.change(func() {
		if !s.of.taken {
			s.of.taken, s.of.block, s.of.view = true, block, view
		}
	})
}

// Try records a view, unless a block has taken the query.
func (s *Step) Try(v View) {
	s.of.change(func() {
		if !s.of.taken && len(s.of.views) < maxSteps {
			s.of.views = append(s.of.views, v)
		}
	})
}

// Cached records *cache*'s entry and the present answer below. It ignores truncated answers and errors, which
// do not compare.
func (s *Step) Cached(m, below *dns.Msg) {
	if below.Truncated || below.Rcode != dns.RcodeSuccess && below.Rcode != dns.RcodeNameError {
		return
	}
	s.of.change(func() { s.of.cached, s.of.below = Content(m), Content(below) })
}

// Content returns an answer on one line, without TTLs and the order of records.
func Content(m *dns.Msg) string {
	var data []string
	for _, rr := range m.Answer {
		h := rr.Header()
		data = append(data, strings.Join(strings.Fields(dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String())), " "))
	}
	slices.Sort(data)
	return strings.TrimSpace(dns.RcodeToString[m.Rcode] + " " + strings.Join(data, ", "))
}

// Fail records the error of a plugin.
func (s *Step) Fail(err error) { s.of.change(func() { s.of.err = err }) }

// Answer records that the running plugin (last begun, not ended) has answered. The first call counts.
func (e *Explanation) Answer() {
	e.change(func() {
		if e.answered == nil {
			e.answered = e.last()
		}
	})
}

// WouldAnswer records the running plugin's answer without *cache*. The first call counts.
func (s *Step) WouldAnswer() {
	s.of.change(func() {
		if s.of.wouldAnswer == nil {
			s.of.wouldAnswer = s.of.last()
		}
	})
}

// last returns the last step that has not ended. mu is held.
func (e *Explanation) last() *Step {
	for _, s := range slices.Backward(e.steps) {
		if !s.ended {
			return s
		}
	}
	return e.root
}

// Report is the result of an explanation.
type Report struct {
	// Steps are in the order of their begin.
	Steps    []StepReport
	Notes    []string
	Views    []View
	Findings []Finding
	Searches []Search
	// Taken: Block takes the query, by View, which may be empty.
	Taken       bool
	Block, View string
	// Cached and Below are as of Step.Cached.
	Cached, Below string
	// Answered, WouldAnswer (without Cached) and Pending (last not ended) are indexes of Steps, -1 for none.
	Answered, WouldAnswer, Pending int
	Truncated                      bool
	// Forwarded is the last name that *forward* asked for, empty for none.
	Forwarded string
	// Err is the error of the chain, nil for none.
	Err error
}

// StepReport is one step of a Report.
type StepReport struct {
	Plugin string
	// Depth is the number of plugins in front.
	Depth int
	Took  time.Duration
	// Ended: the plugin has returned; Left: the query bypassed it.
	Ended, Left bool
	// Passed: it called another plugin.
	Passed bool
	Notes  []string
}

// Report returns the report up to now.
func (e *Explanation) Report() Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Report{
		Notes: slices.Clone(e.root.notes), Views: slices.Clone(e.views), Findings: slices.Clone(e.findings), Searches: slices.Clone(e.searches),
		Taken: e.taken, Block: e.block, View: e.view, Cached: e.cached, Below: e.below, Answered: -1, WouldAnswer: -1, Pending: -1, Truncated: e.truncated, Err: e.err, Forwarded: e.forwarded,
	}
	index := map[*Step]int{}
	for i, s := range e.steps {
		index[s] = i
		out := StepReport{Plugin: s.plugin, Took: s.took, Ended: s.ended, Left: s.left, Notes: slices.Clone(s.notes)}
		if p, ok := index[s.parent]; ok {
			out.Depth = r.Steps[p].Depth + 1
			r.Steps[p].Passed = r.Steps[p].Passed || !s.left && s.plugin != Connect
		}
		if !s.ended {
			out.Took, r.Pending = time.Since(e.begun)-s.begun, i
		}
		r.Steps = append(r.Steps, out)
	}
	if i, ok := index[e.answered]; ok {
		r.Answered = i
	}
	if i, ok := index[e.wouldAnswer]; ok {
		r.WouldAnswer = i
	}
	return r
}
