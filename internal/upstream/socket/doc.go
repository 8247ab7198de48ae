// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package socket carries requests of the Responses API to the upstream over WebSockets,
// for clients that POST them.
//
// Behind a conversation's first request a connection stays open. What its last answer was
// given to lives there, so that the next request is what is new and that answer's id. A
// connection answers one request at a time, and belongs to one conversation of one tenant:
// two requests at once go over two, or as POST.
//
// The handshake goes the way that the POST would have gone, through whatever stands behind
// the handler. So the operator's transport, header rules and choice of upstreams are in
// force, and nothing has to be said twice.
package socket
