//! Sessions that prompts tell, where rows name none.

use crate::forest::{NO_SESSION, Trace};

/// Full blocks that a prompt must share with an earlier one to go on with it.
const LEAST: usize = 2;

impl Trace {
    /// The session of each request by its prompt, named by the index of its first request: a prompt that begins with
    /// all full blocks of an earlier one, [`LEAST`] at least, goes on with it; of several such with the longest, and
    /// of equal ones with the last.
    ///
    /// Time is of the trace's full blocks; memory, of its requests and its nodes, 4 bytes each.
    pub fn sessions_by_prompts(&self) -> Vec<u32> {
        let mut ended = vec![NO_SESSION; self.parents.len()];
        let mut sessions = Vec::with_capacity(self.requests.len());
        for (at, request) in self.requests.iter().enumerate() {
            let full = (request.input_tokens / self.block_size).min(request.blocks) as usize;
            let prompt = self.prefix(at, full);
            let before = prompt.iter().rev().map(|&node| ended[node as usize]);
            let session = before.into_iter().find(|&one| one != NO_SESSION).unwrap_or(at as u32);
            if let Some(&last) = prompt.last().filter(|_| full >= LEAST) {
                ended[last as usize] = session;
            }
            sessions.push(session);
        }
        sessions
    }
}

#[cfg(test)]
mod tests {
    use crate::Trace;

    fn told(prompts: &[(u32, &[u32])]) -> Vec<u32> {
        let row = |(at, (tokens, ids)): (usize, &(u32, &[u32]))| {
            format!(
                r#"{{"timestamp": {at}, "input_length": {tokens}, "output_length": 1, "hash_ids": {ids:?}}}"#
            )
        };
        let rows: Vec<String> = prompts.iter().enumerate().map(row).collect();
        Trace::parse(rows.join("\n").as_bytes(), "made", Some(16)).unwrap().sessions_by_prompts()
    }

    #[test]
    fn a_prompt_goes_on_with_the_longest_that_it_begins_with() {
        let chat = [
            (32, &[1, 2][..]),
            (48, &[1, 2, 3]),
            (32, &[1, 4]),
            (64, &[1, 4, 5, 6]),
            (64, &[1, 2, 3, 7]),
        ];
        assert_eq!(told(&chat), [0, 0, 2, 2, 0]);
    }

    #[test]
    fn one_shared_block_or_a_partial_one_makes_no_session() {
        assert_eq!(
            told(&[(16, &[1]), (32, &[1, 2]), (31, &[1, 3]), (47, &[1, 3, 4])]),
            [0, 1, 2, 3]
        );
        assert_eq!(
            told(&[(40, &[1, 2, 3]), (60, &[1, 2, 4, 5])]),
            [0, 0],
            "full blocks alone count"
        );
    }

    #[test]
    fn the_same_prompt_again_is_of_the_same_session() {
        assert_eq!(told(&[(32, &[1, 2]), (48, &[1, 2, 3]), (32, &[1, 2])]), [0, 0, 0]);
    }
}
