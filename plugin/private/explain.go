// SPDX-License-Identifier: Apache-2.0

package private

import (
	"fmt"

	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
)

// explain adds a finding if the answer m is a denial.
func (h *Handler) explain(x *explain.Step, state *request.Request, m *dns.Msg, of class) {
	if m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0 {
		return
	}
	qname := state.Name()
	why, let := "", ""
	switch z, _ := h.table.find(qname, state.QType()); {
	case of == classSingleLabel:
		why, let = "it has one label, so no server outside can know which network's it is", "single_labels off"
	case z == nil:
		return
	case of == classReverse:
		why, let = "it is the reverse name of an address that many networks use", "except "+z.Name
	case of == classSpecial:
		why, let = z.Name+" is set aside by a standard, and no server outside has names in it", "except "+z.Name
	case of == classSuffix:
		why, let = z.Name+" is for private networks, and no server outside has names in it", "except "+z.Name
	case of == classAlso:
		why, let = z.Name+" is a zone of `also` in the Corefile", "except "+qname
	}
	said := "has no record of this type"
	if m.Rcode == dns.RcodeNameError {
		said = "does not exist"
	}
	x.Find(explain.Finding{
		Code: api.CodePrivate, Text: fmt.Sprintf("no network of this guest has the name %s, and it is private: %s. So the plugin private says that it %s, and no upstream is asked", qname, why, said),
		Remedy: fmt.Sprintf("if it is a name of the guest's network, add it to a DNS row of the switch; if a DNS server of yours has it, give the plugin private the property `%s`, so that forward asks", let),
	})
}
