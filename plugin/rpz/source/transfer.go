// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	// maxFirstRetry is the longest wait before a zone is tried again that was never read. It
	// begins with minInterval, and doubles.
	maxFirstRetry = 5 * time.Minute
	// maxInterval bounds how often an SOA record has the primaries asked.
	maxInterval = 24 * time.Hour
	// maxExpire bounds when an SOA record has the rules expire.
	maxExpire = 1000 * 24 * time.Hour
)

// minInterval bounds what an SOA record says. Tests have another one.
var minInterval = 5 * time.Second

// refresh keeps the rules those of the primaries until ctx ends, by the timers of the SOA record
// (RFC 1035, section 3.3.13).
func (s *Source) refresh(ctx context.Context) {
	defer close(s.done)
	first := minInterval
	for {
		err := s.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		next := first
		switch r := s.Rules(); {
		case r == nil:
			first = min(2*first, maxFirstRetry)
		case err == nil:
			first = minInterval
			next = seconds(r.SOA.Refresh)
		default:
			next = s.untilRetry(r.SOA)
		}
		if err != nil {
			s.failed(err)
		}
		if !wait(ctx, next) {
			return
		}
		s.expire()
	}
}

// untilRetry returns how long to wait after a failure: for the retry timer, but not beyond the
// end of the rules.
func (s *Source) untilRetry(soa *dns.SOA) time.Duration {
	left := time.Until(s.Status().Checked.Add(expiry(soa)))
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

// expire drops the rules if the primaries were not reached for as long as the SOA record says.
func (s *Source) expire() {
	r := s.Rules()
	if r == nil {
		return
	}
	after := expiry(r.SOA)
	if time.Since(s.Status().Checked) < after {
		return
	}
	s.rules.Store(nil)
	s.log.Warningf("Zone %s: the rules have expired, %s after the primaries were last reached", &s.config, after)
	s.update(func(st *Status) { st.Loaded = time.Time{} })
}

// ask asks the primaries, one after the other, whether there are other rules, and reads them.
func (s *Source) ask(ctx context.Context) error {
	var errs []error
	for _, primary := range strings.Fields(s.config.Primaries) {
		err := s.askOne(ctx, primary)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("primary %s: %w", primary, err))
	}
	return errors.Join(errs...)
}

func (s *Source) askOne(ctx context.Context, primary string) error {
	if r := s.Rules(); r != nil {
		serial, err := s.serial(ctx, primary)
		if err != nil {
			return err
		}
		if int32(serial-r.SOA.Serial) <= 0 { // RFC 1982, section 3.2
			s.update(func(st *Status) { st.Checked, st.Problem = time.Now(), "" })
			return nil
		}
	}
	began := time.Now()
	r, err := s.transfer(ctx, primary)
	if err == nil {
		s.loaded(r, time.Since(began))
	}
	return err
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

// transfer reads the zone from a primary (AXFR, RFC 5936).
func (s *Source) transfer(ctx context.Context, primary string) (*rules.Rules, error) {
	b, err := rules.NewBuilder(s.config.Zone)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	dialer := net.Dialer{Timeout: queryTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", primary)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	m := new(dns.Msg).SetAxfr(s.config.Zone)
	s.config.Key.sign(m)
	// With a secret it takes no message without a signature.
	t := dns.Transfer{Conn: &dns.Conn{Conn: conn}, ReadTimeout: queryTimeout, WriteTimeout: queryTimeout, TsigSecret: s.config.Key.secrets()}
	envelopes, err := t.In(m, primary)
	if err != nil {
		return nil, err
	}
	for e := range envelopes {
		if err == nil {
			err = e.Error
		}
		for _, rr := range e.RR {
			if err == nil {
				err = b.Add(rr)
			}
		}
		if err != nil {
			conn.Close() // and go on to the end of the goroutine that reads
		}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("transfer of %s: %w", s.config.Zone, err)
	}
	return b.Rules()
}
