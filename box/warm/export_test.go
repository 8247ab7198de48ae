// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package warm

// LoadIdle lets each box find that nobody has asked it for as long as it takes
// until its model is to be kept loaded.
func (b *Boxes) LoadIdle() {
	b.byQueue.Range(func(_, x any) bool {
		x.(*Box).load()
		return true
	})
}
