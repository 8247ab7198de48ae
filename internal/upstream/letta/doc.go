// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package letta is for agents of Letta, which keep their conversations themselves and
// read no more of a request than the last message of the user.
//
// What stands behind is the App Server, which stores responses and forks from them: a
// request carries what is new and the id of the answer that it goes on from, and all of it
// where the server does not know that answer.
//
// What an agent would pass over in silence is refused: tools of the client, their calls
// and results, media besides images.
package letta
