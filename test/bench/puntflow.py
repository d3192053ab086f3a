# SPDX-License-Identifier: Apache-2.0
"""The flows of a bridge whose guests ask a controller: what Neutron's Open vSwitch agent has
for its DNS forwarder."""

RESOLVER = "169.254.169.254"


def install(datapath, max_len):
    """Has the switch send the queries to the resolver address here, and everything else to where
    it belongs. max_len is how many bytes of a query are sent, as in ofp_action_output."""
    proto, parser = datapath.ofproto, datapath.ofproto_parser

    def add(priority, match, actions):
        apply = parser.OFPInstructionActions(proto.OFPIT_APPLY_ACTIONS, actions)
        datapath.send_msg(parser.OFPFlowMod(datapath=datapath, priority=priority, match=match, instructions=[apply]))

    add(0, parser.OFPMatch(), [parser.OFPActionOutput(proto.OFPP_NORMAL)])
    add(
        102,
        parser.OFPMatch(eth_type=0x0800, ip_proto=17, ipv4_dst=RESOLVER, udp_dst=53),
        [parser.OFPActionOutput(proto.OFPP_CONTROLLER, max_len)],
    )
    print("switch is connected", flush=True)
