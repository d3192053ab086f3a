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

// active counts the explanations that have not ended.
var active atomic.Int32

// Limits of one explanation: plugins may look names up in turn, and their notes have names of tenants. All
// above the limits is left out, and Truncated says so.
const (
	maxSteps = 500
	maxNotes = 50
	maxNote  = 2000 // bytes
)

// Explanation is the way of one query. Its methods are safe for concurrent use.
type Explanation struct {
	begun time.Time
	ended atomic.Bool

	mu sync.Mutex
	// root is the step of the chain itself, and steps are all, in the order in which they
	// began; guarded by mu, with what they have.
	root     *Step
	steps    []*Step
	views    []View
	findings []Finding
	// block and view are those that take the query, empty for none; answered is the step that
	// has answered, nil for none.
	block, view string
	taken       bool
	// cached is the Content of the entry of *cache*, empty for none, and below the Content of the answer of
	// the plugins below it.
	cached, below string
	answered      *Step
	// wouldAnswer is the step that would answer, were it not for the entry of *cache*; nil for none.
	wouldAnswer *Step
	truncated   bool
	err         error
	searches    []Search
	forwarded   string
}

// Search finds why a network does not have a name, where that takes time or a connection. err is why it could not.
type Search func() (findings []Finding, err error)

// Step is the part of one plugin in an explanation.
type Step struct {
	of     *Explanation
	parent *Step // nil for the root
	plugin string
	// begun is when the plugin got the query, from the beginning of the explanation on, and took its time
	// with all behind it. The lock of the Explanation guards both.
	begun, took time.Duration
	ended, left bool
	notes       []string
}

// Finding is something by which a query does not get the answer that an operator expects.
type Finding struct {
	// Code is for programs, Text for people.
	Code, Text string
	// Remedy says what to do about it, and Commands has lines for the shell of an operator.
	// Both may be empty.
	Remedy   string
	Commands []string
}

// View is a block that was asked whether it takes the query, by its view.
type View struct {
	Block, Name string
	Matches     bool
	Expressions []Expression
	Labels      []Label
}

// Expression is an expression of a view. Value is its result, or Err its error.
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

// End ends the explanation. What comes later is left out.
func (e *Explanation) End() {
	if !e.ended.Swap(true) {
		active.Add(-1)
	}
}

// Context returns a context by which the plugins of a chain explain.
func (e *Explanation) Context(ctx context.Context) context.Context {
	return opentracing.ContextWithSpan(ctx, &span{step: e.root})
}

// Of returns the step of the plugin that has a context, nil for a query that is not explained.
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

// begin adds a step.
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

// Notef adds what the plugin says of its decision.
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

// Find adds a finding, unless there is one of that code and text.
func (e *Explanation) Find(f Finding) {
	e.change(func() {
		known := slices.ContainsFunc(e.findings, func(o Finding) bool { return o.Code == f.Code && o.Text == f.Text })
		if len(e.findings) < maxNotes && !known {
			e.findings = append(e.findings, f)
		}
	})
}

// Forwards notes the name that *forward* asks for: a plugin may have changed the name of the query.
func (s *Step) Forwards(name string) { s.of.change(func() { s.of.forwarded = name }) }

// IfDenied adds a search. It runs after the plugins, if the answer denies the name or the type.
func (s *Step) IfDenied(search Search) {
	s.of.change(func() { s.of.searches = append(s.of.searches, search) })
}

// Asked returns the upstreams that a forward has asked, each once, in their order: the one of this step, or
// the last one behind it that has asked any.
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

// isForwardOf reports whether a step is another step, or the step of a *forward* that it has called with no
// other plugin between.
func (s *Step) isForwardOf(first *Step) bool {
	for s != nil && s != first && (s.plugin == first.plugin || s.plugin == Connect) {
		s = s.parent
	}
	return s == first
}

// Passed reports whether another plugin was called behind this step.
func (s *Step) Passed() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return slices.ContainsFunc(s.of.steps, func(c *Step) bool { return c.parent == s && !c.left && c.plugin != Connect })
}

// Enter begins the step of a plugin that the query does not go through, though its answer counts. The
// step has to be ended.
func (s *Step) Enter(plugin string) *Step { return s.of.begin(s, plugin) }

// End ends a step that Enter has begun.
func (s *Step) End() { s.end() }

// Leave notes a plugin that an explained query goes past, and what there is to
// say of it.
func (s *Step) Leave(plugin string, notes ...string) {
	left := s.of.begin(s, plugin)
	for _, text := range notes {
		left.Notef("%s", text)
	}
	s.of.change(func() { left.left, left.ended = true, true })
}

// Take notes the block that takes the query, and its view. It notes nothing of a lookup that a plugin makes.
func (s *Step) Take(block, view string) {
	s.of.change(func() {
		if !s.of.taken {
			s.of.taken, s.of.block, s.of.view = true, block, view
		}
	})
}

// Try notes a view that was asked, unless a block has taken the query already.
func (s *Step) Try(v View) {
	s.of.change(func() {
		if !s.of.taken && len(s.of.views) < maxSteps {
			s.of.views = append(s.of.views, v)
		}
	})
}

// Cached notes what *cache* has for the query, which the guest gets, and what the plugins below it
// have said now. It notes nothing if these do not compare: a truncated answer lacks records, and an error is no
// newer answer.
func (s *Step) Cached(m, below *dns.Msg) {
	if below.Truncated || below.Rcode != dns.RcodeSuccess && below.Rcode != dns.RcodeNameError {
		return
	}
	s.of.change(func() { s.of.cached, s.of.below = Content(m), Content(below) })
}

// Content returns what an answer says on one line, without TTLs and the order of its records.
func Content(m *dns.Msg) string {
	var data []string
	for _, rr := range m.Answer {
		h := rr.Header()
		data = append(data, strings.Join(strings.Fields(dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String())), " "))
	}
	slices.Sort(data)
	return strings.TrimSpace(dns.RcodeToString[m.Rcode] + " " + strings.Join(data, ", "))
}

// Fail notes the error of a plugin.
func (s *Step) Fail(err error) { s.of.change(func() { s.of.err = err }) }

// Answer notes that the plugin which runs now has answered: the last one that has begun and not
// ended. The first call counts.
func (e *Explanation) Answer() {
	e.change(func() {
		if e.answered == nil {
			e.answered = e.last()
		}
	})
}

// WouldAnswer notes that the plugin which runs now would have answered, were it not for *cache*. The
// first call counts.
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

// Report is what an explanation has come to.
type Report struct {
	// Steps are in the order in which they began.
	Steps []StepReport
	// Notes are the notes of the chain as a whole.
	Notes    []string
	Views    []View
	Findings []Finding
	Searches []Search
	// Taken is set if a block takes the query: Block, by View, which is empty for one without.
	Taken       bool
	Block, View string
	// Cached is the Content of the entry of *cache* for the query, and Below the Content of the answer of the
	// plugins below it. Both are empty without an entry, or if they do not compare, see Step.Cached.
	Cached, Below string
	// Answered is the index in Steps of the step that has answered, -1 for none. WouldAnswer is the step that
	// would have answered without Cached, Pending the last step that has not ended.
	Answered, WouldAnswer, Pending int
	Truncated                      bool
	// Forwarded is the name that *forward* has asked for last, empty for none.
	Forwarded string
	// Err is the error that the chain has ended with, nil for none.
	Err error
}

// StepReport is one step of a Report.
type StepReport struct {
	Plugin string
	// Depth is 0 for a plugin of the chain that no other one stands before.
	Depth int
	// Took is the time of the plugin with all behind it.
	Took time.Duration
	// Ended is set if the plugin has returned, Left if the query did not go through it.
	Ended, Left bool
	// Passed is set if another plugin comes behind it.
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
