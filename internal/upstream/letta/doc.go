// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package letta supports agents of Letta, which store their conversations themselves and read only
// the last user message of a request.
//
// The upstream is the App Server, which stores responses and forks from them. A request carries the
// new messages and the id of the previous answer. It carries the whole conversation if the server
// does not know that answer.
//
// Content that an agent would silently ignore is refused: client tools, their calls and results,
// media other than images.
package letta
