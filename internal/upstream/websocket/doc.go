// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package websocket serves clients that speak the Responses API over a WebSocket.
//
// Such a client sends response.create instead of a POST. From the second turn on, it sends the new
// items and the id of the answer that it continues. Only the connection keeps the input of that
// answer. A [Server] keeps it, and turns each response.create into the POST of a whole
// conversation. So the handlers behind need no knowledge of WebSockets, and see the whole history.
//
// A connection has lanes (stream_id). Requests of one lane are answered in sequence, requests of
// different lanes concurrently.
package websocket
