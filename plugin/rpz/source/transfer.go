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
	// queryTimeout bounds one answer of a primary, and one message of a transfer.
	queryTimeout = 15 * time.Second
	// transferTimeout bounds a transfer.
	transferTimeout = 30 * time.Minute
	// maxBackoff is the longest wait before a zone is tried again that was never read, or is too
	// large. The wait begins with minInterval, and doubles.
	maxBackoff = 5 * time.Minute
	// maxInterval bounds how often an SOA record has the primaries asked.
	maxInterval = 24 * time.Hour
	// maxExpire bounds when an SOA record has the rules expire.
	maxExpire = 1000 * 24 * time.Hour
)

// minInterval bounds what an SOA record says. Tests have another one.
var minInterval = 5 * time.Second

// refresh updates the rules from the primaries until ctx ends, by the timers of the SOA record (RFC 1035,
// section 3.3.13).
func (s *Source) refresh(ctx context.Context) {
	defer close(s.done)
	backoff := minInterval
	// The first transfer is due even if the rules of another Source are in force: they may be over
	// the limits, or signed by another key.
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
		// A transfer that is too large costs the node much, so a NOTIFY does not hurry the next one.
		if !s.waitNotified(ctx, next, !errors.Is(err, rules.ErrTooLarge)) {
			return
		}
		s.expire()
	}
}

// pause returns how long to wait after the primaries were asked with an error or without, and the
// next backoff. A transfer that is too large costs memory and processor time each time, so the retry
// timer of the zone, which its primary chooses, does not decide alone.
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

// untilRetry returns how long to wait after a failure: for the retry timer, but not beyond the
// end of the rules.
func (s *Source) untilRetry(soa *dns.SOA) time.Duration {
	left := time.Until(s.lastReached().Add(expiry(soa)))
	return max(min(seconds(soa.Retry), left), minInterval/5)
}

// seconds returns the refresh or retry timer of an SOA record, within bounds.
func seconds(n uint32) time.Duration {
	return min(max(time.Duration(n)*time.Second, minInterval), maxInterval)
}

// expiry returns how long after the primaries were last reached the rules expire.
func expiry(soa *dns.SOA) time.Duration {
	return min(max(time.Duration(soa.Expire)*time.Second, minInterval), maxExpire)
}

// lastReached returns when a primary was last there: one whose zone is too large is.
func (s *Source) lastReached() time.Time {
	if checked := s.Status().Checked; checked.After(s.refused) {
		return checked
	}
	return s.refused
}

// expire drops the rules if the primaries were not reached for as long as the SOA record says.
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

// ask asks the primaries whether there are other rules, and reads them: each of those that have sent a
// NOTIFY, and then one after the other until one has answered. Where due is set it reads the rules in any
// case. A zone that is too large is not asked for elsewhere.
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

// askOne asks one primary, and reads the rules if there are others.
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
	// dns.Transfer compares serial numbers without regard to their wrap.
	if before.CanEdit() && serial > before.SOA.Serial {
		if done, err := s.readDelta(ctx, primary, before); done {
			return err
		}
	}
	return s.readWhole(ctx, primary)
}

// readWhole reads the whole zone (AXFR, RFC 5936).
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

// readDelta reads the changes since the present rules (IXFR, RFC 1995), or what the primary sends in their
// place. It reports whether that is done: the whole zone should be read otherwise.
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

// fallBack counts a delta that could not be used, and logs it unless that is known since the last delta
// that could.
func (s *Source) fallBack(primary string, err error) {
	if !s.fellBack {
		s.log.Warningf("Zone %s: primary %s: the whole zone is transferred in place of its changes: %v", s.config.Zone, primary, err)
	}
	s.fellBack = true
	s.update(func(st *Status) { st.Transfers[Fallback]++ })
}

// serial asks a primary for the serial number of the zone.
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
	// add takes a record. Its error ends the transfer.
	add(rr dns.RR) error
	// rules returns the rules after the last record, or an error if something is missing.
	rules() (*rules.Rules, error)
}

// transfer sends a query for a transfer to a primary, and returns the rules that the answer makes.
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

// receive sends a query for a transfer over a connection, and returns the rules that the answer makes. It
// returns an error unless the whole answer has come.
func (s *Source) receive(conn net.Conn, m *dns.Msg, to receiver) (*rules.Rules, error) {
	s.config.Key.sign(m)
	t := dns.Transfer{
		Conn:        &dns.Conn{Conn: &limitedConn{conn, s.config.Limits.Reader(conn)}},
		ReadTimeout: queryTimeout, WriteTimeout: queryTimeout,
		TsigSecret: s.config.Key.secrets(), // then it takes no message without a signature
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
			conn.Close() // and go on to the end of the goroutine that reads
		}
	}
	if err != nil {
		return nil, err
	}
	return to.rules()
}

// limitedConn is a connection that reads by a reader with a limit.
type limitedConn struct {
	net.Conn
	reader io.Reader
}

// Read implements net.Conn.
func (c *limitedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// transferred is a whole zone that is being transferred.
type transferred struct {
	zone    string
	builder *rules.Builder
	// begun and ended are set by the first and the last record, which both are the SOA record of
	// the zone.
	begun, ended bool
}

var (
	errBegin  = errors.New("expected the SOA record of the zone at its beginning")
	errCutOff = errors.New("expected the SOA record of the zone at its end")
	errBehind = errors.New("expected no record behind the SOA record at the end of the zone")
)

// newTransferred returns a transferred without records.
func (s *Source) newTransferred() (*transferred, error) {
	b, err := rules.NewBuilder(s.config.Zone, s.config.Limits)
	return &transferred{zone: s.config.Zone, builder: b}, err
}

// rules implements receiver.
func (t *transferred) rules() (*rules.Rules, error) {
	if !t.ended {
		return nil, errCutOff
	}
	return t.builder.Rules()
}

// add implements receiver. dns.Transfer takes any SOA record for the SOA record of the zone, and goes on
// after the second one if that is not the last record of its message.
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
