# SPDX-License-Identifier: Apache-2.0
"""A DNS forwarder in an OpenFlow application, built the way such agents are: one
handler takes the packet-ins one after the other, and waits for the upstream in
each."""

import os
import signal
import socket

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.lib.packet import ethernet, ipv4, packet, udp
from os_ken.ofproto import ofproto_v1_3

import puntflow

UPSTREAM = (os.environ["UPSTREAM_HOST"], int(os.environ["UPSTREAM_PORT"]))


class Forwarder(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        puntflow.install(event.msg.datapath, ofproto_v1_3.OFPCML_NO_BUFFER)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def punted(self, event):
        message = event.msg
        datapath = message.datapath
        parser = datapath.ofproto_parser
        frame = packet.Packet(message.data)
        eth, ip, question = (frame.get_protocol(p) for p in (ethernet.ethernet, ipv4.ipv4, udp.udp))
        payload = frame.protocols[-1]
        if question is None or not isinstance(payload, bytes):
            return
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream:
            upstream.settimeout(5)
            upstream.sendto(payload, UPSTREAM)
            try:
                answer = upstream.recv(4096)
            except socket.timeout:
                return
        reply = packet.Packet()
        reply.add_protocol(ethernet.ethernet(dst=eth.src, src=eth.dst, ethertype=eth.ethertype))
        reply.add_protocol(ipv4.ipv4(src=ip.dst, dst=ip.src, proto=ip.proto, ttl=64))
        reply.add_protocol(udp.udp(src_port=question.dst_port, dst_port=question.src_port))
        reply.add_protocol(answer)
        reply.serialize()
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath,
                buffer_id=datapath.ofproto.OFP_NO_BUFFER,
                in_port=datapath.ofproto.OFPP_CONTROLLER,
                actions=[parser.OFPActionOutput(message.match["in_port"])],
                data=reply.data,
            )
        )


if __name__ == "__main__":
    from os_ken import cfg

    cfg.CONF(args=["--ofp-tcp-listen-port", "6653", "--ofp-listen-host", "127.0.0.1"], project="os_ken")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print("starting", flush=True)
    app_manager.AppManager.run_apps([__file__])
