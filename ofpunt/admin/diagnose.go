// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/shell"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// diagnose adds findings of plugins, then about the answer. It leaves out effects of another finding.
func (q *explainedQuery) diagnose(v *punt.TestResult, r *explain.Report) {
	out := q.out
	resumed := v.Outcome.Result == metric.Resumed
	isRule := slices.ContainsFunc(r.Findings, func(f explain.Finding) bool { return slices.Contains(ruling, f.Code) })
	if r.Cached != r.Below && !isRule { // the guest gets what the rule makes of the stored answer
		out.find(api.CodeCached, fmt.Sprintf("the guest gets what was stored in cache: %s; a new query would get: %s", r.Cached, r.Below), "")
	}
	findings := r.Findings
	if resumed || isDenial(v.Answer) {
		findings = q.search(r)
	}
	var behind []explain.Finding // the answer
	for _, f := range findings {
		switch {
		case isGood(v.Answer) != (f.Code == api.CodeNotOpened): // the others matter without a good answer
		case resumed && (f.Code == api.CodePrivate || f.Code == api.CodeLoop): // the server that the guest has asked decides
		case resumed || isDenial(v.Answer) || !slices.Contains(denying, f.Code):
			q.diagnoseFound(f)
		default:
			behind = append(behind, f)
		}
	}
	if v.Outcome.Reason == metric.ReasonNoBlock && !resumed {
		out.find(api.CodeNoBlock, "no server block of the Corefile takes the query, so the guest gets "+cmp.Or(out.Rcode, "no answer"), q.blockRemedy())
	}
	if !resumed {
		if !isGood(v.Answer) {
			q.diagnoseViews(r)
		}
		if !q.hasCause(v.Answer) {
			q.diagnoseAnswer(v, r)
		}
	}
	for _, f := range behind {
		q.diagnoseFound(f)
	}
	if isGood(v.Answer) || isDenial(v.Answer) {
		q.diagnoseSlow(v, r)
	}
}

// Some guests ask again after a second.
const slow = time.Second

func (q *explainedQuery) diagnoseSlow(v *punt.TestResult, r *explain.Report) {
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Plugin == explain.Connect && s.Took >= slow {
			address := strings.Join(s.Notes, " ")
			q.out.find(api.CodeSlowUpstream, fmt.Sprintf("upstream %s has taken %.1f s to answer", address, s.Took.Seconds()), "", explain.DigAt(address, v.Answer)...)
		}
	}
}

// Searches know more of the name, so their findings come first.
func (q *explainedQuery) search(r *explain.Report) (findings []explain.Finding) {
	for _, search := range r.Searches {
		found, err := search()
		if err != nil {
			q.out.Notes = append(q.out.Notes, err.Error())
		}
		findings = append(findings, found...)
	}
	return append(findings, r.Findings...)
}

// deciding explain any answer.
var deciding = []string{api.CodeAlias, api.CodePolicy, api.CodePolicyZone, api.CodeEgressFailed, api.CodeUpstream, api.CodeLoop, api.CodeNoBlock}

// ruling explain an answer that is not what cache has.
var ruling = []string{api.CodePolicy, api.CodeEgressFailed}

// denying explain only a denial: any tenant may have a name such as www.example.org in a network.
var denying = []string{api.CodeCached, api.CodeOtherNetwork, api.CodeSearchDomain, api.CodeUnreadable, api.CodeNoSwitch, api.CodeNorthd, api.CodePrivate}

// hasCause reports whether a finding explains m; nil is no answer.
func (q *explainedQuery) hasCause(m *dns.Msg) bool {
	return q.out.has(deciding...) || isDenial(m) && q.out.has(denying...)
}

// isGood: after a truncated answer the guest repeats the query over TCP. m may be nil.
func isGood(m *dns.Msg) bool {
	return m != nil && m.Rcode == dns.RcodeSuccess && (m.Truncated || hasType(m))
}

// m may be nil.
func isDenial(m *dns.Msg) bool {
	return m != nil && (m.Rcode == dns.RcodeNameError || m.Rcode == dns.RcodeSuccess && !isGood(m))
}

func hasType(m *dns.Msg) bool {
	qtype := m.Question[0].Qtype
	return slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return qtype == dns.TypeANY || rr.Header().Rrtype == qtype })
}

// subject returns what a denial is about: the name, or its CNAME target.
func (q *explainedQuery) subject(m *dns.Msg) string {
	subject := q.name
	for _, rr := range m.Answer {
		if c, ok := rr.(*dns.CNAME); ok {
			subject = fmt.Sprintf("%s is an alias of %s, which", q.name, c.Target)
		}
	}
	return subject
}

func (q *explainedQuery) diagnoseFound(f explain.Finding) {
	out := q.out
	if f.Code == api.CodePrivate && out.has(denying...) {
		return // puntdns would ask nobody outside
	}
	if f.Code == api.CodeOtherNetwork && out.Guest.Interface != "" {
		f.Commands = append(slices.Clone(f.Commands), "ovs-vsctl get Interface "+shell.Word(out.Guest.Interface)+" external_ids:iface-id    # the port of the guest's interface")
	}
	out.find(f.Code, f.Text, f.Remedy, f.Commands...)
}

func sameAddress(resolver string, a netip.Addr) bool {
	r, err := netip.ParseAddrPort(resolver)
	return err == nil && r.Addr() == a
}

func (q *explainedQuery) diagnoseAnswer(v *punt.TestResult, r *explain.Report) {
	out := q.out
	switch {
	case v.Outcome.Reason == metric.ReasonDeadline:
		out.find(api.CodeDeadline, fmt.Sprintf("the plugins have not answered in %.1f s, so the guest gets SERVFAIL; %s", out.Seconds, whoWaits(r)), "")
	case v.Answer == nil:
		out.find(api.CodeDropped, "the guest gets no answer: "+whyNone(v, r), "")
	case v.Answer.Rcode == dns.RcodeNameError:
		remedy := q.nameRemedy(r)
		if len(v.Answer.Answer) > 0 {
			remedy = "mend the CNAME record, or add the name that it refers to"
		}
		out.find(api.CodeNoData, fmt.Sprintf("%s does not exist for port %s of switch %s, says %s", q.subject(v.Answer), out.Guest.Port, cmp.Or(out.Guest.Switch, "unknown"), whoAnswered(r, q.name)), remedy)
	case v.Answer.Rcode != dns.RcodeSuccess:
		q.diagnoseError(v, r)
	case !isGood(v.Answer) && isReferral(v.Answer) && upstreamOf(r, r.Answered) != "":
		upstream := upstreamOf(r, r.Answered)
		out.find(api.CodeUpstream, fmt.Sprintf("upstream %s refers to other servers and has no answer: it does not resolve names of other zones", upstream), "name a resolver in forward",
			explain.DigAt(upstream, v.Answer)...)
	case !isGood(v.Answer):
		out.find(api.CodeNoType, fmt.Sprintf("%s exists, but has no record of type %s, says %s", q.subject(v.Answer), out.Question.Type, whoAnswered(r, q.name)), otherFamily[out.Question.Type])
	case v.Answer.Truncated:
		out.find(api.CodeTruncated, "the records do not fit into an answer over UDP, so the guest asks again over TCP", "")
	}
}

// isReferral: m only names the servers of a zone (RFC 2308, section 2.2).
func isReferral(m *dns.Msg) bool {
	is := func(rrtype uint16) bool {
		return slices.ContainsFunc(m.Ns, func(rr dns.RR) bool { return rr.Header().Rrtype == rrtype })
	}
	return m.Rcode == dns.RcodeSuccess && !m.Authoritative && len(m.Answer) == 0 && is(dns.TypeNS) && !is(dns.TypeSOA)
}

var otherFamily = map[string]string{
	"A":    "this is the right answer for a name that has IPv6 addresses only, and guests take those; add an IPv4 address if it has to have one",
	"AAAA": "this is the right answer for a name that has IPv4 addresses only, and guests take those; add an IPv6 address if it has to have one",
}

func whyNone(v *punt.TestResult, r *explain.Report) string {
	if v.Outcome.Reason == metric.ReasonPanic {
		return "a plugin has panicked, the log of puntdns says where"
	}
	text := "no plugin has answered, or one has dropped the query"
	if last := len(r.Steps) - 1; last >= 0 {
		text += "; the last plugin that had it is " + r.Steps[last].Plugin
	}
	return text
}

func (q *explainedQuery) diagnoseError(v *punt.TestResult, r *explain.Report) {
	out := q.out
	if upstream := upstreamOf(r, r.Answered); upstream != "" {
		out.find(api.CodeUpstream, fmt.Sprintf("upstream %s answers %s%s", upstream, out.Rcode, orMismatch[v.Answer.Rcode]), "ask that server yourself: it may not serve this node, or its own servers may fail",
			explain.DigAt(upstream, v.Answer)...)
		return
	}
	who := ""
	switch {
	case r.Err != nil:
		who = ": " + r.Err.Error()
	case r.Answered >= 0:
		who = " from " + whoAnswered(r, q.name)
	case v.Outcome.Reason != metric.ReasonChain && v.Outcome.Reason != metric.ReasonNoBlock:
		who = fmt.Sprintf(": the query is not one for the plugins (%s)", v.Outcome.Reason)
	default:
		who = whoReturned(r)
	}
	out.find(api.CodeError, fmt.Sprintf("the guest gets the error %s%s", out.Rcode, who), "")
}

// whoReturned names the last plugin that called no other one, as it returned the error without an answer.
func whoReturned(r *explain.Report) string {
	for _, s := range slices.Backward(r.Steps) {
		if !s.Left && !s.Passed && s.Plugin != explain.Connect {
			return ", which the plugin " + s.Plugin + " returns without an answer"
		}
	}
	return ""
}

// orMismatch has further causes of an rcode of *forward*.
var orMismatch = map[int]string{dns.RcodeFormatError: ", or its answer is for another question"}

func (q *explainedQuery) nameRemedy(r *explain.Report) string {
	remedy := "see that it is spelt right; a name of the guest's network has to be in a DNS row of switch " + cmp.Or(q.out.Guest.Switch, "its") + ", or the hostname of a port there: `puntctl names " + shell.Word(q.out.Guest.Port) + "` lists them"
	if r.Answered >= 0 && r.Steps[r.Answered].Plugin == "ovnhosts" {
		remedy += "; for a name outside of OVN, `fallthrough` in ovnhosts has to cover it, or no plugin behind is asked; and without `monitor all`, ovnhosts knows no names of networks that have no guest on this node"
	}
	return remedy
}

func (q *explainedQuery) blockRemedy() string {
	return "add a server block without a view for " + q.name + ", such as one that begins with `. {`, or widen the view of one"
}

func (q *explainedQuery) diagnoseViews(r *explain.Report) {
	for _, v := range r.Views {
		if v.Matches {
			continue
		}
		var unmet []string
		for _, e := range v.Expressions {
			if e.Value != "true" {
				unmet = append(unmet, e.Text+" is "+cmp.Or(e.Value, e.Err))
			}
		}
		for _, l := range v.Labels {
			unmet = append(unmet, fmt.Sprintf("%s of this guest is %q", l.Name, l.Value))
		}
		takes, remedy := "another block takes the query: "+r.Block, "if that block is for this guest, mend the expression, or what the label is made from"
		if !r.Taken {
			takes, remedy = "no other block takes the query", remedy+"; if not, "+q.blockRemedy()
		}
		q.out.find(api.CodeView, fmt.Sprintf("the block %s does not answer this guest, as its view %s does not match: %s; %s", v.Block, v.Name, strings.Join(unmet, ", "), takes), remedy)
	}
}

func whoWaits(r *explain.Report) string {
	if r.Pending < 0 {
		return "none of them waits by now"
	}
	s := r.Steps[r.Pending]
	if s.Plugin == explain.Connect {
		return "it waits for upstream " + strings.Join(s.Notes, " ")
	}
	return "it waits for " + s.Plugin
}

// whoAnswered names the plugin that answered, its upstream, and another name that the upstream was asked for.
func whoAnswered(r *explain.Report, name string) string {
	if r.Answered < 0 {
		return "the server"
	}
	if upstream := upstreamOf(r, r.Answered); upstream != "" {
		asked := ""
		if r.Forwarded != "" && !strings.EqualFold(r.Forwarded, name) {
			asked = ", which was asked for " + r.Forwarded
		}
		return fmt.Sprintf("upstream %s (%s)%s", upstream, r.Steps[r.Answered].Plugin, asked)
	}
	return "the plugin " + r.Steps[r.Answered].Plugin
}

func upstreamOf(r *explain.Report, step int) (address string) {
	if step < 0 {
		return ""
	}
	for i := step + 1; i < len(r.Steps) && r.Steps[i].Plugin == explain.Connect; i++ {
		address = strings.Join(r.Steps[i].Notes, " ")
	}
	return address
}

func uuidOf(id [16]byte) string { return ovsdb.UUID(id).String() }
