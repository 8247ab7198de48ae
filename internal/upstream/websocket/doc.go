// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package websocket answers clients that speak the Responses API over a WebSocket.
//
// Such a client says response.create where others POST, and from the second turn on it
// sends what is new, and the id of the answer that it goes on from. What that answer was
// given to lives with the connection and nowhere else. A [Server] keeps it, and makes
// each response.create the POST of a whole conversation: whatever answers those, by
// events or not, needs to know nothing of sockets, and sees all of the history.
//
// A connection has lanes (stream_id). Requests of one lane are answered one after the
// other, those of several at once.
package websocket
