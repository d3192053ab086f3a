// SPDX-License-Identifier: Apache-2.0

package lastquery

import (
	"fmt"
	"time"

	"github.com/coredns/coredns/plugin/pkg/rcode"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// answered is the code of a query that has got an answer with records.
const answered = "answered"

// outcomes are the outcomes of a query: the first one whose function returns true counts. The codes are the codes of
// puntctl explain, so that the guest can give one to the operator. A text says nothing of other guests.
var outcomes = []struct {
	code, text string
	is         func(q *Query) bool
}{
	{"resumed", "the server that you have asked answers it", func(q *Query) bool { return q.Result == metric.Resumed }},
	{api.CodePolicy, "a policy of the operator decides", func(q *Query) bool { return q.Plugin == "rpz" || q.Plugin == "egress" }},
	{api.CodeOverLimit, "you ask too much at once", func(q *Query) bool {
		return q.Reason == metric.ReasonOverload || q.Reason == metric.ReasonPortLimit || q.Reason == metric.ReasonLimit
	}},
	{api.CodeNoBlock, "the operator has nobody answer this name for you", func(q *Query) bool { return q.Reason == metric.ReasonNoBlock }},
	{api.CodeDeadline, "there was no answer in time", func(q *Query) bool { return q.Reason == metric.ReasonDeadline }},
	{api.CodeLoop, "you are the server that would be asked", func(q *Query) bool { return q.Reason == metric.ReasonLoop }},
	{api.CodeDropped, "nobody has answered it", func(q *Query) bool { return q.Result == metric.Dropped }},
	{api.CodePrivate, "a rule for private names and addresses decides", func(q *Query) bool { return q.Plugin == "private" }},
	{api.CodeNoData, "there is no such name", func(q *Query) bool { return q.Rcode == dns.RcodeNameError }},
	{api.CodeUpstream, "a server outside has failed", func(q *Query) bool { return q.Rcode != dns.RcodeSuccess && q.Upstream.IsValid() }},
	{api.CodeError, "it was answered with an error", func(q *Query) bool { return q.Rcode != dns.RcodeSuccess }},
	{api.CodeNoType, "the name has no record of this type", func(q *Query) bool { return q.Empty }},
	{answered, "it was answered", func(*Query) bool { return true }},
}

// maxString is the length of a string of a TXT record (RFC 1035, section 3.3.14), which is less than of some names.
const maxString = 255

// Strings returns the strings of the TXT record, key=value each, cut to maxString.
func (q *Query) Strings() []string {
	all := []string{"name=" + q.Name, "type=" + dns.Type(q.Type).String()}
	for i := range outcomes {
		if o := &outcomes[i]; o.is(q) {
			all = append(all, "code="+o.code, "text="+o.text)
			break
		}
	}
	if q.Result != metric.Resumed && q.Result != metric.Dropped {
		all = append(all, "rcode="+rcode.ToString(q.Rcode))
	}
	if q.Plugin != "" {
		all = append(all, "plugin="+q.Plugin)
	}
	if q.Upstream.IsValid() {
		all = append(all, "upstream="+q.Upstream.String())
	}
	all = append(all, "time="+q.Arrived.UTC().Format(time.RFC3339), fmt.Sprintf("took=%.3fms", float64(q.Took.Nanoseconds())/1e6))
	for i, s := range all {
		all[i] = s[:min(maxString, len(s))]
	}
	return all
}
