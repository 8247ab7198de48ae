// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package socket sends requests of the Responses API to the upstream over WebSockets, for clients
// that POST them.
//
// A connection stays open after a conversation's first request. It keeps the input of its last
// answer, so the next request consists of the new items and that answer's id. A connection answers
// one request at a time, and belongs to one conversation of one tenant: two concurrent requests use
// two connections, or POST.
//
// The handshake takes the POST's route through the next handlers. So the operator's transport,
// header rules and load balancing apply without further configuration.
package socket
