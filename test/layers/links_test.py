"""Every link of a document leads to something."""

import os
import re
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop()) if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")


class Links(unittest.TestCase):
    @staticmethod
    def _folders():
        """All but what is built, and what is hidden."""
        for folder, below, _ in os.walk(ROOT):
            below[:] = [name for name in below if not name.startswith(".") and name not in ("build", "results")]
            yield folder

    def test_no_link_leads_nowhere(self):
        documents = [os.path.join(folder, name) for folder in self._folders() for name in os.listdir(folder) if name.endswith(".md")]
        broken = []
        seen = 0
        for document in documents:
            with open(document, encoding="utf-8") as file:
                for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read()):
                    seen += 1
                    if "://" not in target and not os.path.exists(os.path.join(os.path.dirname(document), target)):
                        broken.append(f"{os.path.relpath(document, ROOT)}: {target}")
        self.assertGreater(seen, 10)
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
