// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// confirmWithin bounds an answer's wait for the switch. A client waits 5 s (resolv.conf(5), timeout).
const confirmWithin = time.Second

// requests are answers that wait for openings. With standing, most answers need not wait.
type requests struct {
	mu sync.Mutex // guards all fields
	// waiting has callers by token. new are requests that the machine does not have yet.
	waiting  map[uint64]chan<- error
	new      []openRequest
	token    uint64
	standing map[placement.Opening]standing
	// closed is why the machine takes no requests, else nil.
	closed error
}

func newRequests() requests {
	return requests{waiting: map[uint64]chan<- error{}, standing: map[placement.Opening]standing{}}
}

// Open returns once the switch has confirmed that a guest may send to an answer's destinations. The error wraps
// opening.ErrFull, context.DeadlineExceeded after confirmWithin, or the cause of ctx, or says what prevents it.
func (rec *Reconciler) Open(ctx context.Context, guest placement.Key, a *opening.Answer) error {
	r := &rec.requests
	token, done := r.add(guest, a, time.Now())
	if done == nil {
		return nil
	}
	rec.notify()
	if by, ok := ctx.Value(opening.CallerKey{}).(opening.Caller); ok {
		by.LeaveReader()
	}
	// Most answers return above without a timer.
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		r.cancel(token)
		return fmt.Errorf("the switch has not confirmed in time: %w", context.Cause(ctx))
	}
}

// Stands implements opening.Opener for a guest.
func (rec *Reconciler) Stands(of placement.Opening, name string, lasts time.Duration) bool {
	r := &rec.requests
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.standing[of]
	if !s.serves(name, now.Add(lasts)) {
		return false
	}
	s.answered.Store(answerTime(now))
	return true
}

// Openings returns how many openings the switch has.
func (rec *Reconciler) Openings() int {
	rec.requests.mu.Lock()
	defer rec.requests.mu.Unlock()
	return len(rec.requests.standing)
}

// add returns a nil channel if all openings stand.
func (r *requests) add(guest placement.Key, a *opening.Answer, now time.Time) (token uint64, done <-chan error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.allStand(guest, a, now) {
		for _, to := range a.To {
			if !a.Trial {
				r.standing[placement.Opening{Guest: guest, To: to}].answered.Store(answerTime(now))
			}
		}
		return 0, nil
	}
	r.token++
	wait := make(chan error, 1)
	if r.closed != nil {
		wait <- r.closed
		return r.token, wait
	}
	r.waiting[r.token] = wait
	r.new = append(r.new, openRequest{r.token, guest, *a})
	return r.token, wait
}

func (r *requests) allStand(guest placement.Key, a *opening.Answer, now time.Time) bool {
	until := now.Add(a.Lasts)
	return !slices.ContainsFunc(a.To, func(to opening.Destination) bool {
		s := r.standing[placement.Opening{Guest: guest, To: to}]
		return !s.serves(a.Name, until)
	})
}

func (s *standing) serves(name string, until time.Time) bool {
	return !until.After(s.until) && (isFull(s.names) || slices.Contains(s.names, name))
}

func (r *requests) cancel(token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, token)
	r.new = slices.DeleteFunc(r.new, func(o openRequest) bool { return o.token == token })
}

// close ends present and later requests whose openings do not stand.
func (r *requests) close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.new = why, nil
	for _, wait := range r.waiting {
		wait <- why
	}
	clear(r.waiting)
}

func (r *requests) take() []openRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.new
	r.new = nil
	return all
}

func (r *requests) end(o opened) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.waiting[o.token]; wait != nil {
		wait <- o.err
		delete(r.waiting, o.token)
	}
}

func (r *requests) record(s *standing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.until.IsZero() {
		delete(r.standing, s.of)
	} else {
		r.standing[s.of] = *s
	}
}
