// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/refcount"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

// Logger logs changes of state.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

// Config says where the rules of a zone are from. Equal Configs share a Source.
type Config struct {
	// Zone is a lower-case FQDN.
	Zone string
	// Path is a file, "" for a transfer.
	Path string
	// Primaries are HOST:PORT, separated by spaces.
	Primaries string
	Key       Key
	Limits    rules.Limits
}

// sameZone ignores key and limits.
func (c *Config) sameZone(other *Config) bool {
	return c.Zone == other.Zone && c.Path == other.Path && c.Primaries == other.Primaries
}

// Place returns the path, or the primaries.
func (c *Config) Place() string { return cmp.Or(c.Path, c.Primaries) }

// String returns the zone and its place.
func (c *Config) String() string { return c.Zone + " of " + c.Place() }

// Status is the state of a Source.
type Status struct {
	// Loaded is when the present rules were read, zero for none.
	Loaded time.Time
	// Checked is when the file or a primary last confirmed the rules.
	Checked time.Time
	// Took is the time of the last read.
	Took time.Duration
	// Failures counts failed reads and refreshes.
	Failures uint64
	// Problem is why the last read failed, else "".
	Problem string
	// Transfers counts by Result.
	Transfers [Results]uint64
}

// Source has the present rules of one zone.
type Source struct {
	config Config
	log    Logger

	rules   atomic.Pointer[rules.Rules]
	changed atomic.Pointer[chan struct{}]
	cancel  context.CancelFunc
	first   chan struct{} // closed after the first read of a file, failed or not
	done    chan struct{} // closed when the goroutine has ended

	// Only for the goroutine of refresh:
	refused  time.Time // when the primaries' zone was last too large
	asked    time.Time // when the primaries were last asked
	fellBack bool      // the last delta was unusable

	notified chan struct{} // capacity 1: a pending NOTIFY

	mu     sync.Mutex
	status Status // guarded by mu
	// notifiers sent a NOTIFY since the last query. Guarded by mu.
	notifiers []string
	// firstErr is why the first read failed. Valid once first is closed.
	firstErr error
}

// Config returns where the rules are from.
func (s *Source) Config() Config { return s.config }

// Rules returns the present rules, nil before the first ones and once they have expired.
func (s *Source) Rules() *rules.Rules { return s.rules.Load() }

// Changed returns a channel that is closed at the next change of rules or status.
func (s *Source) Changed() <-chan struct{} { return *s.changed.Load() }

// Status returns the present state.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

var sources refcount.Pool[Config, *Source]

// Acquire returns the shared Source of a Config, before the first read. Until then it has the rules of
// another Source of this zone and place, so a reload that changes a key or limit leaves no gap.
func Acquire(c Config, log Logger) *Source {
	all := sources.All()
	i := slices.IndexFunc(all, func(s *Source) bool { return s.config.sameZone(&c) && s.Rules() != nil })
	s, _ := sources.Acquire(c, func() (*Source, error) { // has no errors
		s := newSource(c, log)
		if i >= 0 {
			s.inherit(all[i])
		}
		s.start()
		return s, nil
	})
	return s
}

// AwaitFile waits for the first read of a file, and returns its error without rules. For a transfer it
// returns nil at once.
func (s *Source) AwaitFile() error {
	<-s.first
	if s.Rules() == nil {
		return s.firstErr
	}
	return nil
}

// Release undoes one Acquire. The last one waits for the goroutine to end.
func (s *Source) Release() {
	if sources.Release(s.config, s) {
		s.cancel()
		<-s.done
	}
}

// All returns the sources of the process, by zone and place.
func All() []*Source {
	all := sources.All()
	slices.SortFunc(all, func(a, b *Source) int { return strings.Compare(a.config.String(), b.config.String()) })
	return all
}

func newSource(c Config, log Logger) *Source {
	s := &Source{config: c, log: log, first: make(chan struct{}), done: make(chan struct{}), notified: make(chan struct{}, 1)}
	changed := make(chan struct{})
	s.changed.Store(&changed)
	return s
}

// inherit takes the rules of another Source, before start.
func (s *Source) inherit(from *Source) {
	st := from.Status()
	s.rules.Store(from.Rules())
	s.status = Status{Loaded: st.Loaded, Checked: st.Checked, Took: st.Took}
}

func (s *Source) start() {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	if s.config.Path != "" {
		go s.follow(ctx)
	} else {
		close(s.first)
		go s.refresh(ctx)
	}
}

// loaded takes new rules of a file. Every change is logged before it is visible.
func (s *Source) loaded(r *rules.Rules, took time.Duration) {
	s.logLoaded(r, took, "")
	logSkipped(s.log, s.config.Zone, &r.Stats)
	s.update(func(st *Status) {
		s.rules.Store(r)
		st.loaded(took)
	})
}

// transferred takes new rules of a primary. how is for the log.
func (s *Source) transferred(r *rules.Rules, took time.Duration, result Result, how string) {
	s.logLoaded(r, took, how)
	if result != Delta || !r.Stats.SameSkipped(&s.Rules().Stats) {
		logSkipped(s.log, s.config.Zone, &r.Stats)
	}
	s.update(func(st *Status) {
		s.rules.Store(r)
		st.loaded(took)
		st.Transfers[result]++
	})
}

func (s *Source) isUpToDate() {
	s.update(func(st *Status) {
		st.Checked, st.Problem = time.Now(), ""
		st.Transfers[UpToDate]++
	})
}

func (st *Status) loaded(took time.Duration) {
	now := time.Now()
	st.Loaded, st.Checked, st.Took, st.Problem = now, now, took, ""
}

// failed logs an outage of the primaries once, and each problem of a file once.
func (s *Source) failed(err error) {
	problem, before := err.Error(), s.Status().Problem
	// A retry's error may differ, as in its local port. A file is read again only after a change.
	switch known := before != "" && (s.config.Path == "" || before == problem); {
	case known:
	case s.Rules() != nil:
		s.log.Warningf("Zone %s: the rules stay as they are: %v", s.config.Zone, err)
	default:
		s.log.Warningf("Zone %s has no rules: %v", s.config.Zone, err)
	}
	s.update(func(st *Status) {
		st.Problem = problem
		st.Failures++
	})
}

func (s *Source) update(change func(*Status)) {
	s.mu.Lock()
	change(&s.status)
	s.mu.Unlock()
	again := make(chan struct{})
	close(*s.changed.Swap(&again))
}

func (s *Source) logLoaded(r *rules.Rules, took time.Duration, how string) {
	st := &r.Stats
	s.log.Infof("Zone %s: %d rules for names and %d for addresses, serial %d, %sread in %s", &s.config, st.Names, st.Addresses, r.SOA.Serial, how, took.Round(time.Millisecond))
}

func logSkipped(log Logger, zone string, st *rules.Stats) {
	if n := st.Skipped[rules.ClientIP] + st.Skipped[rules.NSIP] + st.Skipped[rules.NSDName]; n > 0 {
		log.Warningf("Zone %s: %d rules are skipped, their triggers are not supported: %d rpz-client-ip, %d rpz-nsip, %d rpz-nsdname",
			zone, n, st.Skipped[rules.ClientIP], st.Skipped[rules.NSIP], st.Skipped[rules.NSDName])
	}
	if st.Bad > 0 {
		log.Warningf("Zone %s: %d records are no rules, and are skipped; the first is %s", zone, st.Bad, st.FirstBad)
	}
}
