"""From pyproject.toml and constraints.txt beside us to dependencies.txt and versions.txt, for pip.

Takes the build of torch as its argument. Runs in a build stage, and on the machine that gets packages together for
one; so it needs nothing but Python.
"""

import platform
import sys
import tomllib


def constraint(line: str, torch: str) -> str:
    """A line of constraints.txt, with the version of torch that is asked for."""
    name, equals, version = line.strip().partition("==")
    if name != "torch" or not equals or torch == "default":
        return line
    if torch != "cpu":
        return f"torch=={torch}\n"
    # For other processors there are no builds with CUDA that one would have to keep out.
    return f"torch=={version}+cpu\n" if platform.machine() == "x86_64" and "+" not in version else line


def main(torch: str) -> None:
    with open("pyproject.toml", "rb") as file:
        dependencies = tomllib.load(file)["project"]["dependencies"]
    with open("constraints.txt", encoding="utf-8") as file:
        versions = [constraint(line, torch) for line in file]
    with open("dependencies.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(dependencies) + "\n")
    with open("versions.txt", "w", encoding="utf-8") as file:
        file.writelines(versions)


if __name__ == "__main__":
    main(sys.argv[1])
