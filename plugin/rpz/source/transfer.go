// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

const (
	// queryTimeout is for one answer, and for one message of a transfer.
	queryTimeout    = 15 * time.Second
	transferTimeout = 30 * time.Minute
	// maxBackoff is for a zone that was never read, or is too large. The wait doubles from minInterval.
	maxBackoff  = 5 * time.Minute
	maxInterval = 24 * time.Hour
	maxExpire   = 1000 * 24 * time.Hour
)

// minInterval, maxInterval and maxExpire limit SOA timers. Tests change minInterval.
var minInterval = 5 * time.Second

// refresh updates the rules until ctx ends, by the SOA timers (RFC 1035, section 3.3.13).
func (s *Source) refresh(ctx context.Context) {
	defer close(s.done)
	backoff := minInterval
	// The first transfer is due even with inherited rules, of perhaps another key or limit.
	for due := true; ; {
		s.asked = time.Now()
		err := s.ask(ctx, due, s.takeNotifiers())
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.failed(err)
		} else {
			due = false
		}
		var next time.Duration
		next, backoff = s.pause(err, backoff)
		// A NOTIFY does not hurry a zone that is too large.
		if !s.waitNotified(ctx, next, !errors.Is(err, rules.ErrTooLarge)) {
			return
		}
		s.expire()
	}
}

// pause returns the wait, and the next backoff, which also limits retries of a zone that is too large: each
// costs memory and CPU.
func (s *Source) pause(err error, backoff time.Duration) (next, nextBackoff time.Duration) {
	longer := min(2*backoff, maxBackoff)
	switch r := s.Rules(); {
	case r == nil:
		return backoff, longer
	case err == nil:
		return seconds(r.SOA.Refresh), minInterval
	case errors.Is(err, rules.ErrTooLarge):
		return max(s.untilRetry(r.SOA), backoff), longer
	default:
		return s.untilRetry(r.SOA), backoff
	}
}

// untilRetry returns the retry timer, but at most the time to the expiry.
func (s *Source) untilRetry(soa *dns.SOA) time.Duration {
	left := time.Until(s.lastReached().Add(expiry(soa)))
	return max(min(seconds(soa.Retry), left), minInterval/5)
}

func seconds(n uint32) time.Duration {
	return min(max(time.Duration(n)*time.Second, minInterval), maxInterval)
}

// expiry returns how long rules stay without contact to a primary.
func expiry(soa *dns.SOA) time.Duration {
	return min(max(time.Duration(soa.Expire)*time.Second, minInterval), maxExpire)
}

// lastReached includes answers with a zone that is too large.
func (s *Source) lastReached() time.Time {
	if checked := s.Status().Checked; checked.After(s.refused) {
		return checked
	}
	return s.refused
}

// expire drops expired rules.
func (s *Source) expire() {
	r := s.Rules()
	if r == nil {
		return
	}
	after := expiry(r.SOA)
	if time.Since(s.lastReached()) < after {
		return
	}
	s.log.Warningf("Zone %s: the rules have expired, %s after the primaries were last reached", &s.config, after)
	s.update(func(st *Status) {
		s.rules.Store(nil)
		st.Loaded = time.Time{}
	})
}

// ask asks notifiers, then the others until one answers. due reads in any case. After ErrTooLarge it asks no
// other.
func (s *Source) ask(ctx context.Context, due bool, notifiers []string) error {
	var errs []error
	answered := false
	ask := func(primary string) (goOn bool) {
		err := s.askOne(ctx, primary, due && !answered)
		if err == nil {
			answered = true
			return true
		}
		errs = append(errs, fmt.Errorf("primary %s: %w", primary, err))
		if !errors.Is(err, rules.ErrTooLarge) {
			return true
		}
		s.refused = time.Now()
		answered = false
		return false
	}
	for _, primary := range notifiers {
		if !ask(primary) {
			return errors.Join(errs...)
		}
	}
	for _, primary := range strings.Fields(s.config.Primaries) {
		if answered || !slices.Contains(notifiers, primary) && !ask(primary) {
			break
		}
	}
	if answered {
		return nil
	}
	return errors.Join(errs...)
}

func (s *Source) askOne(ctx context.Context, primary string, due bool) error {
	before := s.Rules()
	if before == nil || due {
		return s.readWhole(ctx, primary)
	}
	serial, err := s.serial(ctx, primary)
	if err != nil {
		return err
	}
	if !newer(serial, before.SOA.Serial) {
		s.isUpToDate()
		return nil
	}
	// dns.Transfer compares serial numbers without their wrap.
	if before.CanEdit() && serial > before.SOA.Serial {
		if done, err := s.readDelta(ctx, primary, before); done {
			return err
		}
	}
	return s.readWhole(ctx, primary)
}

func (s *Source) readWhole(ctx context.Context, primary string) error {
	began := time.Now()
	zone, err := s.newTransferred()
	if err != nil {
		return err
	}
	r, err := s.transfer(ctx, primary, new(dns.Msg).SetAxfr(s.config.Zone), zone)
	if err == nil {
		s.transferred(r, time.Since(began), Whole, "")
	}
	return err
}

// readDelta sends an IXFR (RFC 1995). done is false if the whole zone should be read.
func (s *Source) readDelta(ctx context.Context, primary string, before *rules.Rules) (done bool, err error) {
	began := time.Now()
	x := &incremental{source: s, before: before}
	soa := before.SOA
	r, err := s.transfer(ctx, primary, new(dns.Msg).SetIxfr(s.config.Zone, soa.Serial, soa.Ns, soa.Mbox), x)
	var notReached *net.OpError
	switch {
	case err == nil && r == before:
		s.isUpToDate()
	case err == nil && x.whole != nil:
		s.transferred(r, time.Since(began), Whole, "")
	case err == nil:
		s.fellBack = false
		s.transferred(r, time.Since(began), Delta, fmt.Sprintf("a delta of %d records, ", x.records))
	case ctx.Err() != nil || x.whole != nil || errors.As(err, &notReached) && notReached.Op == "dial":
		return true, err
	default:
		s.fallBack(primary, err)
		return false, nil
	}
	return true, nil
}

// fallBack counts an unusable delta, and logs the first in a row.
func (s *Source) fallBack(primary string, err error) {
	if !s.fellBack {
		s.log.Warningf("Zone %s: primary %s: the whole zone is transferred in place of its changes: %v", s.config.Zone, primary, err)
	}
	s.fellBack = true
	s.update(func(st *Status) { st.Transfers[Fallback]++ })
}

func (s *Source) serial(ctx context.Context, primary string) (uint32, error) {
	m := new(dns.Msg).SetQuestion(s.config.Zone, dns.TypeSOA)
	m.RecursionDesired = false
	s.config.Key.sign(m)
	c := dns.Client{Net: "tcp", Timeout: queryTimeout, TsigSecret: s.config.Key.secrets()}
	in, _, err := c.ExchangeContext(ctx, m, primary)
	if err != nil {
		return 0, err
	}
	if s.config.Key != (Key{}) && in.IsTsig() == nil { // else Client has verified it
		return 0, dns.ErrNoSig
	}
	if in.Rcode != dns.RcodeSuccess {
		return 0, fmt.Errorf("%s to a query for the SOA record, expected NOERROR", dns.RcodeToString[in.Rcode])
	}
	for _, rr := range in.Answer {
		if soa, ok := rr.(*dns.SOA); ok && strings.EqualFold(soa.Hdr.Name, s.config.Zone) {
			return soa.Serial, nil
		}
	}
	return 0, fmt.Errorf("no SOA record of %s, expected one", s.config.Zone)
}

// receiver takes the records of a transfer.
type receiver interface {
	// An error of add ends the transfer.
	add(rr dns.RR) error
	// rules returns an error if records are missing.
	rules() (*rules.Rules, error)
}

func (s *Source) transfer(ctx context.Context, primary string, m *dns.Msg, to receiver) (*rules.Rules, error) {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	dialer := net.Dialer{Timeout: queryTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", primary)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	r, err := s.receive(conn, m, to)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return nil, fmt.Errorf("transfer of %s: %w", s.config.Zone, err)
	}
	return r, nil
}

// receive returns an error unless the answer is complete.
func (s *Source) receive(conn net.Conn, m *dns.Msg, to receiver) (*rules.Rules, error) {
	s.config.Key.sign(m)
	t := dns.Transfer{
		Conn:        &dns.Conn{Conn: &limitedConn{conn, s.config.Limits.Reader(conn)}},
		ReadTimeout: queryTimeout, WriteTimeout: queryTimeout,
		TsigSecret: s.config.Key.secrets(), // with secrets, unsigned messages are refused
	}
	envelopes, err := t.In(m, "")
	if err != nil {
		return nil, err
	}
	for e := range envelopes {
		if err == nil {
			err = e.Error
		}
		for _, rr := range e.RR {
			if err == nil {
				err = to.add(rr)
			}
		}
		if err != nil {
			conn.Close() // then drain until the reading goroutine ends
		}
	}
	if err != nil {
		return nil, err
	}
	return to.rules()
}

type limitedConn struct {
	net.Conn
	reader io.Reader
}

func (c *limitedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

type transferred struct {
	zone    string
	builder *rules.Builder
	// begun and ended are set by the zone's SOA.
	begun, ended bool
}

var (
	errBegin  = errors.New("expected the SOA record of the zone at its beginning")
	errCutOff = errors.New("expected the SOA record of the zone at its end")
	errBehind = errors.New("expected no record behind the SOA record at the end of the zone")
)

func (s *Source) newTransferred() (*transferred, error) {
	b, err := rules.NewBuilder(s.config.Zone, s.config.Limits)
	return &transferred{zone: s.config.Zone, builder: b}, err
}

func (t *transferred) rules() (*rules.Rules, error) {
	if !t.ended {
		return nil, errCutOff
	}
	return t.builder.Rules()
}

// add checks SOA records: dns.Transfer takes any as the zone's, and goes on after the second unless it ends
// its message.
func (t *transferred) add(rr dns.RR) error {
	soa, isSOA := rr.(*dns.SOA)
	isSOA = isSOA && strings.EqualFold(soa.Hdr.Name, t.zone)
	switch {
	case t.ended:
		return errBehind
	case !t.begun && !isSOA:
		return errBegin
	case isSOA:
		t.begun, t.ended = true, t.begun
	}
	return t.builder.Add(rr)
}
